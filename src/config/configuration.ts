import type { Connector } from "#connector.ts";
import type { Limits } from "#plan/limits.ts";
import type { Rules } from "#principals/rules.ts";
import type { ServiceSettings } from "#service/options.ts";
import type { Channel } from "#sync/notify/options.ts";

/** The configuration as the program uses it: checked, secrets filled in, paths absolute, durations in milliseconds, sizes in bytes. */
export interface Configuration {
  /** The file it came from, absolute. */
  readonly file: string;
  /** The folder of `file`: what relative paths are relative to. */
  readonly folder: string;
  /** The data folder of the service and of the daemon, absolute. */
  readonly data: string;
  /** DuckDB's memory limit in bytes, for the service and for a run each. */
  readonly memory: number;
  /** Absent when the file has no `service:`; then there is no embedded target. */
  readonly service?: ServiceConfiguration;
  /** The daemon's own listener, where it runs without the service. */
  readonly control: {
    readonly listen: { readonly host: string; readonly port: number };
    readonly allowPlainHttp: boolean;
  };
  readonly targets: Readonly<Record<string, TargetConfiguration>>;
  readonly sources: Readonly<Record<string, SourceConfiguration>>;
  readonly syncs: Readonly<Record<string, SyncConfiguration>>;
  /** How long, and how many runs are remembered; of how many the lists. */
  readonly journal: { readonly keep: number; readonly runs: number; readonly lists: number };
  /** Channels by which people are told, by name. */
  readonly notifications: Readonly<Record<string, Channel>>;
  /** Who may read the metrics. */
  readonly metrics: { readonly open: boolean; readonly token?: string };
  /** Every secret value that was filled in, for redaction. */
  readonly secrets: readonly string[];
  /** What stands in the file, value by value, as it was before anything was made of it. */
  readonly settings: readonly Setting[];
}

type ServiceConfiguration = ServiceSettings & {
  /** A folder, absolute: `loadPinboards` reads it. */
  readonly pinboards?: string | undefined;
};

/** `embedded` is the service of the same data folder. */
export type TargetConfiguration = "embedded" | RemoteTarget;

export interface RemoteTarget {
  readonly url: string;
  readonly username: string;
  readonly password: string;
  /** A file in PEM form that the server's certificate is checked against. */
  readonly ca?: string;
  /** What stands before `/tspublic/v1`. */
  readonly prefix: string;
  /** Other hosts that loads may go to when the server says so: `host` or `host:port`. */
  readonly nodes: readonly string[];
}

export interface SourceConfiguration {
  readonly connector: Connector;
  readonly options: unknown;
  /** How long it need not be read when it tells that nothing has changed; absent: it is read at every run. */
  readonly fullReadEvery?: number;
}

export interface SyncConfiguration {
  /** Names of sources, the one that wins first. */
  readonly from: readonly string[];
  /** Those of them of which a failed read does not fail the run. */
  readonly optional: readonly string[];
  /** The name of a target. */
  readonly to: string;
  /** A cron expression; absent: only on demand. */
  readonly schedule?: string;
  /** An IANA time zone for `schedule`; absent: the system's. */
  readonly timezone?: string;
  /** A run begins up to so much after its slot; absent: at once. */
  readonly jitter?: number;
  /** Whether slots that passed while it could not run are made up for. */
  readonly catchUp: boolean;
  readonly retries: { readonly attempts: number; readonly first: number; readonly most: number };
  /** How long it may be without a success; absent: for ever. */
  readonly overdueAfter?: number;
  readonly rules: Rules;
  /** `owned`: only what the ledger says this sync created or adopted. `everything`: all that is not protected. */
  readonly manage: "owned" | "everything";
  /** Names, with `*` for any characters, that are never touched. */
  readonly protect: { readonly users: readonly string[]; readonly groups: readonly string[] };
  /** How long a principal that is gone from the sources stays. */
  readonly deletions: { readonly after: number };
  /** What becomes of a known record with another name, and of a known name with another record. */
  readonly renames: "hold" | "apply";
  readonly reusedNames: "hold" | "apply";
  /** What a run may change at most. */
  readonly limits: Limits;
  /** Who lets a plan be applied: a person, nobody, or a person where a limit is tripped. */
  readonly approval: "required" | "automatic" | "automatic-within-limits";
  /** How long a plan can be approved. */
  readonly approvalExpires: number;
  /** The password of every user that is created; absent: a random one for each run, known to nobody. */
  readonly defaultPassword?: string;
  /** Where the target's users and groups are exported to after a run that was applied; absent: nowhere. */
  readonly export?: ExportConfiguration;
  /** A URL that is requested after each success; what is behind the host is a secret. */
  readonly heartbeat?: string;
}

/** A place in the target for the tables of an export; without a schema, the database's default one. */
export interface ExportConfiguration {
  readonly database: string;
  readonly schema?: string;
}

/** One value that stands in the file. */
export interface Setting {
  /** `syncs.staff.from`. */
  readonly path: string;
  /** As JSON, with what was filled in: it may be a secret. */
  readonly text: string;
  /** It came from outside of the file, or stands where secrets do. */
  readonly secret: boolean;
}

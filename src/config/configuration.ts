import type { RenamePolicy, Stages } from "#plan/departure-options.ts";
import type { Connector, TargetConnector } from "#connector.ts";
import type { DriftRules, Limits } from "#plan/limits.ts";
import type { Attributes } from "#principals/attributes.ts";
import type { Expectation } from "#principals/expectations.ts";
import type { TableReader } from "#principals/lookup.ts";
import type { Rules } from "#principals/rules.ts";
import type { PostgresSettings } from "#postgres/options.ts";
import type { ServiceSettings } from "#service/options.ts";
import type { Channel } from "#notify/options.ts";
import type { ConsoleSettings } from "./console.ts";

/** The configuration as the program uses it: validated, secrets filled in, paths absolute, durations in milliseconds, sizes in bytes. */
export interface Configuration {
  /** The file it came from, absolute. */
  readonly file: string;
  /** Its text, as written: it may hold secrets. */
  readonly text: string;
  /** The folder of `file`, which relative paths start from. */
  readonly folder: string;
  /** The data folder of the service and of the daemon, absolute. */
  readonly data: string;
  /** DuckDB's memory limit in bytes, for the service and for a run each. */
  readonly memory: number;
  /** Absent when the file has no `service:`; then there is no embedded target. */
  readonly service?: ServiceConfiguration;
  /** The daemon's own listener, for when it runs without the service. */
  readonly control: {
    readonly listen: { readonly host: string; readonly port: number };
    readonly allowPlainHttp: boolean;
  };
  /** Present: the daemon's state is in this database, which others share. `lease` in milliseconds. */
  readonly shared?: { readonly postgres: PostgresSettings; readonly lease: number } | undefined;
  readonly targets: Readonly<Record<string, TargetConfiguration>>;
  readonly sources: Readonly<Record<string, SourceConfiguration>>;
  readonly syncs: Readonly<Record<string, SyncConfiguration>>;
  /** Reads the tables that rules look values up in. */
  readonly readTable?: TableReader | undefined;
  /** How long to remember runs (`keep`), how many of them, and for how many to store their lists. */
  readonly journal: { readonly keep: number; readonly runs: number; readonly lists: number };
  /** The channels that notify people, by name. */
  readonly notifications: Readonly<Record<string, Channel>>;
  /** Who may read the metrics. */
  readonly metrics: { readonly open: boolean; readonly token?: string };
  /** The web console. */
  readonly console: false | ConsoleSettings;
  /** Every secret value of the file, for redaction. */
  readonly secrets: readonly string[];
  /** What is valid but unwise, each with file, line and column. */
  readonly warnings: readonly string[];
  /** The file's values, one by one, before validation changes them. */
  readonly settings: readonly Setting[];
}

type ServiceConfiguration = ServiceSettings & {
  /** A folder, absolute: `loadPinboards` reads it. */
  readonly pinboards?: string | undefined;
};

/** `embedded` is the service of the same data folder. */
export type TargetConfiguration = "embedded" | RemoteTarget | ConnectedTarget;

/** An application that is written through a connector. */
export interface ConnectedTarget {
  readonly connector: TargetConnector;
  readonly options: unknown;
  /** The attributes of its users and groups (decision 8). */
  readonly declared: Attributes;
}

/** A service on another machine. */
export interface RemoteTarget {
  readonly url: string;
  readonly username: string;
  readonly password: string;
  /** A PEM file with the certificate authority of the server. */
  readonly ca?: string;
  /** The URL of an HTTP proxy; false: none. Absent: what the environment says. */
  readonly proxy?: string | false;
  /** The path before `/tspublic/v1`. */
  readonly prefix: string;
  /** Other hosts that the server may redirect loads to: `host` or `host:port`. */
  readonly nodes: readonly string[];
}

export interface SourceConfiguration {
  readonly connector: Connector;
  readonly options: unknown;
  /** The lines of the texts in its options. */
  readonly lines: ReadonlyMap<string, number>;
  /** How long to skip reading it while it reports no changes; absent: every run reads it. */
  readonly fullReadEvery?: number;
}

export interface SyncConfiguration {
  /** Names of sources; the first one wins. */
  readonly from: readonly string[];
  /** Sources whose failed read does not fail the run. */
  readonly optional: readonly string[];
  /** The name of a target. */
  readonly to: string;
  /** A cron expression; absent: only on demand. */
  readonly schedule?: string;
  /** An IANA time zone for `schedule`; absent: the system's. */
  readonly timezone?: string;
  /** The longest random delay of a run after its slot; absent: none. */
  readonly jitter?: number;
  /** Whether to run once for the slots that were missed. */
  readonly catchUp: boolean;
  readonly retries: { readonly attempts: number; readonly first: number; readonly most: number };
  /** How long the sync may go without a success; absent: forever. */
  readonly overdueAfter?: number;
  readonly rules: Rules;
  /** `owned`: only what the ledger says this sync created or adopted. `everything`: all that is not protected. */
  readonly manage: "owned" | "everything";
  /** Names that are never touched; `*` stands for any characters. */
  readonly protect: { readonly users: readonly string[]; readonly groups: readonly string[] };
  /** The grace period: how long a principal that left the sources stays. */
  readonly deletions: Stages;
  /** What to do when a known record gets another name, and when a known name gets another record. */
  readonly renames: RenamePolicy;
  readonly reusedNames: "hold" | "apply";
  /** Whether plans name the causes of their changes. */
  readonly causes: boolean;
  /** What happens to what somebody changed in the target. */
  readonly drift: DriftRules;
  /** What must be true of what a run leaves in the target. */
  readonly expectations: readonly Expectation[];
  /** Names of groups in which memberships stay that somebody added by hand; `*` stands for any characters. */
  readonly keepManual: readonly string[];
  /** Bounds on what a run may change. */
  readonly limits: Limits;
  /** Who approves a plan: a person, nobody, or a person only when a limit is tripped. */
  readonly approval: "required" | "automatic" | "automatic-within-limits";
  /** How many different people must approve a plan, and one beyond a limit; and whether the person who asked for it may. */
  readonly approvers: { readonly people: number; readonly beyondLimits: number; readonly notTheRequester: boolean };
  /** How long a plan waits for approval. */
  readonly approvalExpires: number;
  /** The password of created users; absent: a random one for each run, which nobody knows. */
  readonly defaultPassword?: string;
  /** Where to export the target's users and groups after a run was applied; absent: nowhere. */
  readonly export?: ExportConfiguration;
  /** A URL to request after each success. Everything after its host is a secret. */
  readonly heartbeat?: string;
}

/** Where in the target the tables of an export are; absent schema: the database's default one. */
export interface ExportConfiguration {
  readonly database: string;
  readonly schema?: string;
}

/** One value of the file. */
export interface Setting {
  /** `syncs.staff.from`. */
  readonly path: string;
  /** As JSON, with substitutions filled in. */
  readonly text: string;
  /** It came from outside the file, or is under a key for secrets. */
  readonly secret: boolean;
}

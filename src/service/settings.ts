/** What can be configured of the service. Durations are in milliseconds, sizes in bytes, paths absolute. */
export interface ServiceSettings {
  /** Port 0: any free one. */
  readonly listen: { readonly host: string; readonly port: number };
  /** `password` is absent when it is to be generated. */
  readonly administrator: { readonly name: string; readonly password?: string };
  /** Files in PEM form. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** Plain HTTP on an address that is not loopback (0.1). */
  readonly allowPlainHttp: boolean;
  /** What may stand before family B's paths (0.2). */
  readonly prefixes: readonly string[];
  readonly sessions: { readonly idle: number; readonly remembered: number };
  readonly logins: { readonly attempts: number; readonly window: number; readonly lockout: number };
  /** The names of the groups that carry each privilege (0.6). */
  readonly privileges: { readonly administration: readonly string[]; readonly dataManagement: readonly string[] };
  /** A file of SQL: the databases, schemas and tables that are made at the start where they are not there. */
  readonly tables?: string;
  /** What StartLoad says, instead of what the client called (A.5). */
  readonly nodeAddress?: { readonly host: string; readonly port: number };
  readonly loads: {
    readonly statusHold: number;
    readonly expireAfter: number;
    readonly maxChunk: number;
    readonly maxCycle: number;
    /** Uploads are refused when less than this would stay free. */
    readonly minFreeDisk: number;
  };
  /** Of pinboards. */
  readonly queries: { readonly timeout: number; readonly maxRows: number };
}

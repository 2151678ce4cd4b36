/** The CEL expressions of one sync as they stand in the configuration: what becomes of an entry. */
export interface Rules {
  readonly users: KindRules;
  /** Absent: no groups are made of the source's groups. */
  readonly groups?: KindRules;
}

/** Expressions over `entry` for one kind of principal. */
export interface KindRules {
  /** A boolean; absent: every entry is included. */
  readonly include?: string;
  /** A string: the principal's name. */
  readonly name: string;
  /** A string. */
  readonly displayName: string;
  /** A string or null. */
  readonly description?: string;
  /** A string or null; only for users. */
  readonly mail?: string;
  /** A string or a list of strings: names of further groups the principal is directly in. */
  readonly groups?: string;
}

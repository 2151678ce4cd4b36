/** A pinboard: queries by name, whose answers people look at together. */
export interface Pinboard {
  readonly id: string;
  readonly name: string;
  /** The GUID of whom it is by; absent: the administrator's. */
  readonly author?: string;
  /** In epoch milliseconds, as `modified`. */
  readonly created: number;
  readonly modified: number;
  readonly visualizations: readonly Visualization[];
}

export interface Visualization {
  readonly id: string;
  readonly name: string;
  readonly title: string;
  readonly type: "TABLE" | "CHART" | "HEADLINE";
  /** The database its SQL runs in, and does not leave. */
  readonly database: string;
  readonly sql: string;
}

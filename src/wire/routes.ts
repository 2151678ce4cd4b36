/** One operation of the interface: where it is and how it is called. */
export interface Route {
  readonly method: "GET" | "POST";
  /** Below the family's root. */
  readonly path: string;
  /** The path with placeholders for ids, if it has any: metrics count requests by it. */
  readonly template?: string;
}

/** The path every family A operation starts with (specification 4.1). */
export const familyA = "/ts_dataservice/v1";
/** The path every family B operation starts with, below each configured prefix (specification 4.2, decision 0.2). */
export const familyB = "/tspublic/v1";

/** Family A, below `familyA`. */
export const dataRoutes = {
  login: { method: "POST", path: "/public/session" },
  ping: { method: "GET", path: "/public/ping" },
} as const satisfies Record<string, Route>;

/** The loads of family A, below `familyA`. The status has two paths (A.10). */
export const loadRoutes = {
  start: { method: "POST", path: "/public/loads" },
  list: { method: "GET", path: "/public/loads" },
  upload: { method: "POST", path: "/public/loads/:cycle_id" },
  commit: { method: "POST", path: "/public/loads/:cycle_id/commit" },
  cancel: { method: "POST", path: "/public/loads/:cycle_id/cancel" },
  status: { method: "GET", path: "/loads/:cycle_id" },
  publicStatus: { method: "GET", path: "/public/loads/:cycle_id" },
  badRecords: { method: "GET", path: "/public/loads/:cycle_id/bad_records_file" },
  inputSummary: { method: "GET", path: "/public/loads/:cycle_id/input_summary" },
} as const satisfies Record<string, Route>;

/** Family B, below `familyB`. */
export const administrationRoutes = {
  login: { method: "POST", path: "/session/login" },
  logout: { method: "POST", path: "/session/logout" },
  userList: { method: "GET", path: "/user/list" },
  userSync: { method: "POST", path: "/user/sync" },
} as const satisfies Record<string, Route>;

/** The pinboards of family B, below `familyB`. `listvizheaders` has two paths (B.14). */
export const pinboardRoutes = {
  data: { method: "POST", path: "/pinboarddata" },
  dataByGet: { method: "GET", path: "/pinboarddata" },
  headers: { method: "GET", path: "/metadata/listvizheaders" },
  pinboardHeaders: { method: "GET", path: "/pinboard/listvizheaders" },
} as const satisfies Record<string, Route>;

/** The session cookie of both families (decision 0.4). */
export const sessionCookie = "JSESSIONID";

/** Outside both families: health checks and metrics. */
export const healthRoutes = {
  alive: { method: "GET", path: "/healthz" },
  ready: { method: "GET", path: "/readyz" },
  metrics: { method: "GET", path: "/metrics" },
} as const satisfies Record<string, Route>;

/**
 * No part of the interface: for commands on the service's own machine. They use the session that the service leaves in
 * its data folder; every other session is refused.
 */
export const localRoutes = {
  sql: { method: "POST", path: "/local/sql" },
  password: { method: "POST", path: "/local/password" },
  /** Makes the files of the databases fit to be copied for 20 seconds. */
  hold: { method: "POST", path: "/local/hold" },
  release: { method: "POST", path: "/local/release" },
} as const satisfies Record<string, Route>;

/** The path every operation of the daemon's own API starts with. No prefix of family B may start with it. */
export const controlRoot = "/control/v1";

/** The daemon's own API, below `controlRoot`. No part of the interface. */
export const controlRoutes = {
  status: { method: "GET", path: "/status" },
  syncs: { method: "GET", path: "/syncs" },
  run: { method: "POST", path: "/syncs/:sync/run" },
  runs: { method: "GET", path: "/runs" },
  details: { method: "GET", path: "/runs/:id" },
  /** 200 with the run when it has ended, 202 while it is under way. */
  end: { method: "GET", path: "/runs/:id/end" },
  /** The changes of its plan: one JSON array, or a line for each. */
  changes: { method: "GET", path: "/runs/:id/changes" },
  approve: { method: "POST", path: "/runs/:id/approve" },
  reject: { method: "POST", path: "/runs/:id/reject" },
  undo: { method: "POST", path: "/runs/:id/undo" },
  reload: { method: "POST", path: "/reload" },
  /** The caller: name, how they proved it, and role. */
  caller: { method: "GET", path: "/caller" },
  accounts: { method: "GET", path: "/accounts" },
  addAccount: { method: "POST", path: "/accounts" },
  changeAccount: { method: "POST", path: "/accounts/:account" },
  removeAccount: { method: "POST", path: "/accounts/:account/remove" },
  tokens: { method: "GET", path: "/tokens" },
  revokeToken: { method: "POST", path: "/tokens/:token/revoke" },
  /** What providers have pushed to which source, and with which tokens. */
  inboxes: { method: "GET", path: "/inboxes" },
  addInboxToken: { method: "POST", path: "/inboxes/:source/tokens" },
  revokeInboxToken: { method: "POST", path: "/inboxes/:source/revoke" },
  /** A token for a name and a password: needs neither a token nor a session. */
  logIn: { method: "POST", path: "/login" },
  /** Proves to the holder of a token that this is the daemon that has made it: needs neither, as the token is not sent yet. */
  prove: { method: "POST", path: "/prove" },
  /** Revokes the token that it is asked with. */
  logOut: { method: "POST", path: "/logout" },
  /** Lets no run begin for 20 seconds: 200 when none is under way, 202 while one is. */
  hold: { method: "POST", path: "/hold" },
  release: { method: "POST", path: "/release" },
  events: { method: "GET", path: "/events" },
} as const satisfies Record<string, Route>;

/** The path of a route of one run, sync, account, token or source of the daemon's API. */
export function ofControl(route: Route, name: string): Route {
  return {
    method: route.method,
    path: route.path.replace(/:(?:id|sync|account|token|source)/, encodeURIComponent(name)),
  };
}

/** The path of a route of one cycle. */
export function ofCycle(route: Route, cycle: string): Route {
  const { method, path } = route;
  return { method, path: path.replace(":cycle_id", encodeURIComponent(cycle)), template: path };
}

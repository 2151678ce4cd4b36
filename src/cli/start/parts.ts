/** What only a process with a daemon needs, and `start` loads at once. */
export { Daemon } from "#daemon/daemon.ts";
export { openStore, recordConfiguration, recordStart } from "#daemon/records.ts";
export { DaemonApi } from "./api.ts";

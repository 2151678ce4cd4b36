import type { FastifyInstance } from "fastify";
import type { Logger } from "pino";
import { UnavailableError } from "#errors.ts";
import type { Change } from "#plan/change.ts";
import type { Filter } from "#plan/stored.ts";
import type { Begun, Coordinator } from "#sync/coordinator/coordinator.ts";
import type { Actor, RunRecord } from "#sync/record.ts";
import type { Host } from "./access.ts";
import { createEnds } from "./ends.ts";
import { createEventStreams } from "./events.ts";
import type { EventStreams } from "./events.ts";
import { addControlRoutes } from "./routes.ts";

export interface ControlOptions {
  /** What a command on this machine proves with that it may read the data folder. */
  readonly token: string;
  readonly version: string;
  /** ISO 8601. */
  readonly startedAt: string;
  readonly log: Logger;
}

/** The daemon, as its API asks it. */
export interface Daemon {
  readonly coordinator: Coordinator;
  /** The configuration that is in force. Those of two processes are the same when their digests are. */
  readonly configuration: () => { readonly file: string; readonly digest: string };
  /** What a run has planned, as far as it fits. */
  readonly changes: (run: RunRecord, filter: Filter) => AsyncIterable<Change>;
  /** Reads the configuration again, as a whole or not at all. @throws {InputError} something is wrong with it */
  readonly reload: (by: Actor) => Promise<unknown>;
}

/** The daemon's own API. */
export interface Control {
  /** Adds its routes to a server. Until there is a daemon, they answer 503. */
  readonly routes: (app: FastifyInstance, host: Host) => void;
  attach(daemon: Daemon): void;
  /** From here on, nothing is begun or decided. What is under way can still be followed. */
  beginStopping(): void;
}

/** What the routes work with. */
export interface Desk extends ControlOptions {
  readonly events: EventStreams;
  /** @throws {UnavailableError} there is none yet */
  daemon(): Daemon;
  isStopping(): boolean;
  /** Follows a run that was begun here. @returns it, as it began */
  begun(beginning: Begun): RunRecord;
  /** How a run that was begun here has ended. */
  endOf(id: string): RunRecord | "under way" | undefined;
}

export function createControl(options: ControlOptions): Control {
  const events = createEventStreams();
  const ends = createEnds((id, run) => {
    events.tell("ended", { id, run });
  });
  let daemon: Daemon | undefined;
  let isStopping = false;
  const desk: Desk = {
    ...options,
    events,
    daemon: () => {
      if (daemon === undefined) throw new UnavailableError("the daemon is starting");
      return daemon;
    },
    isStopping: () => isStopping,
    begun: (beginning) => {
      void ends.expect(beginning);
      return beginning.run;
    },
    endOf: (id) => ends.of(id),
  };
  return {
    routes: (app, host) => {
      addControlRoutes(app, host, desk);
    },
    attach: (attached) => {
      daemon = attached;
      attached.coordinator.subscribe((event) => {
        events.tell(event.type, event);
      });
    },
    beginStopping: () => {
      isStopping = true;
    },
  };
}

import type { FastifyInstance } from "fastify";
import { UnavailableError } from "#errors.ts";
import type { Begun } from "#sync/coordinator/coordinator.ts";
import type { RunRecord } from "#sync/record.ts";
import type { Host } from "./access.ts";
import { createEventStreams } from "./events.ts";
import { addControlRoutes } from "./routes.ts";
import type { ControlContext, ControlOptions, Daemon } from "./routes.ts";

/** The daemon's own API. */
export interface Control {
  /** Adds its routes to a server. Until there is a daemon, they answer 503. */
  readonly routes: (app: FastifyInstance, host: Host) => void;
  attach(daemon: Daemon): void;
  /** From here on, nothing is begun or decided. What is under way can still be followed. */
  beginStopping(): void;
}

export function createControl(options: ControlOptions): Control {
  const events = createEventStreams();
  const ends = createEnds((id, run) => {
    events.tell("ended", { id, run });
  });
  let daemon: Daemon | undefined;
  let isStopping = false;
  const context: ControlContext = {
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
      addControlRoutes(app, host, context);
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

/** How the runs ended that were begun over the API. In the journal a run may stand as ended before all of it has. */
export interface Ends {
  /** Resolves when it has ended. */
  expect(begun: Begun): Promise<void>;
  /** How the run ended that began with this id; undefined where it is not known any more. */
  of(id: string): RunRecord | "under way" | undefined;
}

/** So many are remembered for who asks. */
const capacity = 200;

/** @param tell is told of every end */
function createEnds(tell: (id: string, run: RunRecord) => void): Ends {
  const ends = new Map<string, RunRecord | "under way">();
  return {
    expect: async ({ run: { id }, ended }) => {
      ends.delete(id);
      ends.set(id, "under way");
      const [oldest] = ends.keys();
      if (ends.size > capacity && oldest !== undefined) ends.delete(oldest);
      const run = await ended;
      if (ends.has(id)) ends.set(id, run);
      tell(id, run);
    },
    of: (id) => ends.get(id),
  };
}

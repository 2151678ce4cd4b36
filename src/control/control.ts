import type { FastifyInstance } from "fastify";
import { UnavailableError } from "#errors.ts";
import type { Begun } from "#sync/coordinator/coordinator.ts";
import { eventDocument, runDocument } from "#state/record.ts";
import type { RunRecord } from "#state/record.ts";
import type { Host } from "./access.ts";
import { createEventStreams } from "./events.ts";
import { addControlRoutes } from "./routes.ts";
import type { ControlContext, ControlOptions, Daemon, RunUnderWay } from "./routes.ts";

/** The daemon's own API. */
export interface Control extends Pick<ControlContext, "daemon" | "track" | "isStopping"> {
  /** Adds the API's routes to a server. They answer 503 until a daemon is attached. */
  readonly routes: (app: FastifyInstance, host: Host) => void;
  attach(daemon: Daemon): void;
  /** From now on, refuses requests that start or decide anything. Runs under way can still be followed. */
  beginStopping(): void;
}

export function createControl(options: ControlOptions): Control {
  const events = createEventStreams();
  const outcomes = createOutcomes((id, run) => {
    events.publish("ended", { id, run: runDocument(run) });
  });
  /** Of the runs under way. */
  const progress = new Map<string, RunUnderWay["progress"]>();
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
    track: (beginning) => {
      void outcomes.track(beginning);
      return beginning.run;
    },
    outcomeOf: (id) => outcomes.of(id),
    progressOf: (id) => progress.get(id),
  };
  return {
    daemon: context.daemon,
    track: context.track,
    isStopping: context.isStopping,
    routes: (app, host) => {
      addControlRoutes(app, host, context);
    },
    attach: (attached) => {
      daemon = attached;
      attached.coordinator.subscribe((event) => {
        if (event.type === "stage") progress.set(event.id, { stage: event.stage, records: event.records });
        if (event.type === "run" && event.run.state !== "running") progress.delete(event.run.id);
        events.publish(event.type, eventDocument(event));
      });
    },
    beginStopping: () => {
      isStopping = true;
    },
  };
}

interface Outcomes {
  /** Resolves when the run has ended. */
  track(begun: Begun): Promise<void>;
  of(id: string): RunRecord | "under way" | undefined;
}

/** How many outcomes are remembered. */
const capacity = 200;

/**
 * Outcomes of the runs that were started over the API. The journal is no substitute: a run may be recorded as ended
 * before everything that belongs to it is done.
 */
function createOutcomes(onEnd: (id: string, run: RunRecord) => void): Outcomes {
  const outcomes = new Map<string, RunRecord | "under way">();
  return {
    track: async ({ run: { id }, ended }) => {
      outcomes.delete(id);
      outcomes.set(id, "under way");
      const [oldest] = outcomes.keys();
      if (outcomes.size > capacity && oldest !== undefined) outcomes.delete(oldest);
      const run = await ended;
      if (outcomes.has(id)) outcomes.set(id, run);
      onEnd(id, run);
    },
    of: (id) => outcomes.get(id),
  };
}

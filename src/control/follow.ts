import { setTimeout as delay } from "node:timers/promises";
import { InputError, UnavailableError } from "#errors.ts";
import type { SyncEvent } from "#sync/coordinator/coordinator.ts";
import type { RunRecord } from "#sync/record.ts";
import { controlRoutes, ofControl } from "#wire/routes.ts";
import { NoDaemonError } from "./connection.ts";
import type { Connection } from "./connection.ts";

/** Follows what a daemon does, as long as somebody wants to know. */
export interface Follower {
  /** To the daemon, or to the one that has taken its place. */
  connection(): Connection;
  /** How a run ends. @throws {UnavailableError} when the daemon has ended before */
  end(id: string): Promise<RunRecord>;
  /** Calls `listener` with what happens. Returns what ends that. */
  subscribe(listener: (event: SyncEvent) => void): () => void;
  close(): void;
}

export interface FollowerOptions {
  /** A daemon that was started again. */
  readonly again: (signal: AbortSignal) => Promise<Connection | undefined>;
  readonly signal: AbortSignal;
}

/** How long after a stream has broken another one is tried, in milliseconds. Until then, runs are asked for. */
const pause = 500;

export function createFollower(first: Connection, { again, signal: outer }: FollowerOptions): Follower {
  const closing = new AbortController();
  const signal = AbortSignal.any([outer, closing.signal]);
  const waiting = new Map<string, PromiseWithResolvers<RunRecord>>();
  const listeners = new Set<(event: SyncEvent) => void>();
  let connection = first;
  let lastId: string | undefined;
  let following: Promise<void> | undefined;

  const settle = (id: string, run: RunRecord): void => {
    waiting.get(id)?.resolve(run);
    waiting.delete(id);
  };
  const fail = (reasonOf: (id: string) => unknown): void => {
    for (const [id, { reject }] of waiting) reject(reasonOf(id));
    waiting.clear();
  };

  /** Asks how it stands with a run. */
  const look = async (id: string): Promise<void> => {
    try {
      const { status, value } = await connection.ask(ofControl(controlRoutes.end, id), signal);
      if (status === 200) settle(id, value as RunRecord);
    } catch (error) {
      if (!(error instanceof InputError)) throw error;
      // The daemon knows nothing of it.
      waiting.get(id)?.reject(error);
      waiting.delete(id);
    }
  };
  const lookAtAll = async (): Promise<void> => {
    for (const id of waiting.keys()) await look(id);
  };

  const listen = (): Promise<void> =>
    connection.listen(
      controlRoutes.events,
      lastId,
      ({ id, event, data }) => {
        lastId = id ?? lastId;
        const value: unknown = JSON.parse(data);
        // What happened before the stream stood, or was missed, is asked for.
        if (event === "listening" || event === "missed") lookAtAll().catch(() => undefined);
        else if (event === "ended") settle((value as { id: string }).id, (value as { run: RunRecord }).run);
        else for (const listener of listeners) listener(value as SyncEvent);
      },
      signal,
    );

  /** @returns false when there is no daemon any more */
  const recover = async (): Promise<boolean> => {
    try {
      await lookAtAll();
      return true;
    } catch (error) {
      if (!(error instanceof NoDaemonError)) return true;
    }
    const found = await again(signal).catch(() => connection);
    if (found === undefined) return false;
    connection = found;
    return true;
  };

  const follow = async (): Promise<void> => {
    while (waiting.size > 0 || listeners.size > 0) {
      await listen().catch(() => undefined);
      if (signal.aborted) break;
      if (!(await recover())) {
        const { pid } = connection.presence;
        fail(
          (id) =>
            new UnavailableError(
              `the daemon (process ${pid}) has ended while run ${id} was under way: what became of it is found out when it is started again; then \`rollcall show ${id}\` tells`,
            ),
        );
        return;
      }
      await delay(pause, undefined, { signal }).catch(() => undefined);
    }
    if (signal.aborted) fail(() => signal.reason);
  };
  const start = (): void => {
    following ??= follow().finally(() => {
      following = undefined;
      if (waiting.size > 0 && !signal.aborted) start();
    });
  };

  return {
    connection: () => connection,
    end: (id) => {
      const end = Promise.withResolvers<RunRecord>();
      waiting.set(id, end);
      start();
      // It may have ended while the stream was open already, and before it was waited for.
      look(id).catch(() => undefined);
      return end.promise;
    },
    subscribe: (listener) => {
      listeners.add(listener);
      start();
      return () => {
        listeners.delete(listener);
      };
    },
    close: () => {
      closing.abort(new UnavailableError("the daemon is not followed any more"));
    },
  };
}

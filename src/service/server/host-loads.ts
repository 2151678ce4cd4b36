import { randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { open, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { InputError, UnavailableError } from "#errors.ts";
import type { DirectoryStore } from "#service/directory/store.ts";
import type { ListedTable } from "#service/engine/engine.ts";
import type { HostedCycle, HostedLoads } from "#service/host.ts";
import { writeError } from "#service/loads/capacity.ts";
import type { Limits } from "#service/loads/capacity.ts";
import type { Cycle, DistantCycle, Node } from "#service/loads/cycle.ts";
import type { Loads } from "#service/loads/loads.ts";
import { checkFormats } from "#service/loads/start-request.ts";
import type { Callers } from "./callers.ts";
import type { Forward } from "./forward.ts";
import type { Worker } from "#service/worker/worker.ts";
import { dataTexts } from "#wire/texts.ts";
import { loadParameters } from "#wire/loads.ts";
import type { LoadParameters, LoadRequest } from "#wire/loads.ts";

export interface HostedLoadsOptions {
  readonly callers: Callers;
  readonly loads: Loads;
  /** Passes requests on to other nodes, where there may be several. */
  readonly forward?: Forward | undefined;
  readonly worker: Pick<Worker, "find" | "tables" | "preview">;
  readonly store: Pick<DirectoryStore, "nameOf">;
  readonly limits: Limits;
  /** Aborted when the service stops waiting for requests. */
  readonly shutdown: AbortSignal;
}

/** How many cycles are listed. */
const listed = 100;

/** How much of a file is looked at, in bytes. */
const sampleSize = 1024 * 1024;

/** The longest name of a file, in characters. */
const longestName = 255;

export function hostLoads(options: HostedLoadsOptions): HostedLoads {
  const { callers, loads, forward, worker, store, limits, shutdown } = options;
  return {
    largest: Math.min(limits.maxChunk, limits.maxCycle),
    passOn: async (request, reply, id) => {
      if (forward === undefined || forward.isForwarded(request)) return undefined;
      if ((await callers.find(request, false)) === undefined) return undefined;
      const cycle = await loads.find(id);
      const node = cycle?.node === undefined ? cycle && (await rejectedElsewhere(loads, cycle)) : cycle.node;
      return node === undefined ? undefined : forward.send(request, reply, node);
    },
    subscribe: loads.subscribe,
    isBusy: loads.isBusy,
    of: async (request) => {
      // Whether it is a use of the session was told when the account was looked up.
      const caller = await callers.find(request, false);
      if (caller === undefined) return undefined;
      const isAdministrator = await callers.holds(caller, "administration");
      if (!isAdministrator && !(await callers.holds(caller, "dataManagement"))) return undefined;

      const find = async (id: string): Promise<Cycle | DistantCycle | undefined> => {
        const cycle = await loads.find(id);
        return isAdministrator || cycle?.owner === caller.id ? cycle : undefined;
      };
      const draft = async (id: string): Promise<{ readonly cycle: Cycle; readonly path: string }> => {
        const cycle = await find(id);
        if (cycle?.node !== undefined) throw notReached();
        const [path] = cycle?.arrived() ?? [];
        if (cycle?.isDraft() !== true || path === undefined)
          throw new InputError(
            "this file is not there any more: it was loaded, discarded, or nobody looked at it for an hour",
          );
        cycle.use();
        return { cycle, path };
      };
      const shown = async (
        cycle: Cycle | DistantCycle,
        names: Map<string, Promise<string | undefined>>,
      ): Promise<HostedCycle> => {
        if (!names.has(cycle.owner)) names.set(cycle.owner, store.nameOf(cycle.owner));
        const parameters = cycle.parameters();
        return {
          id: cycle.id,
          table: parameters.target,
          file: cycle.file,
          by: cycle.owner === caller.id ? undefined : ((await names.get(cycle.owner)) ?? "a deleted account"),
          isDraft: cycle.isDraft(),
          parameters,
          status: cycle.status(),
          badRecords:
            cycle.node !== undefined || cycle.outcome() === undefined ? undefined : await sizeOf(cycle.badRecords),
        };
      };
      return {
        tables: () => worker.tables(),
        table: async (name) => {
          const [found, tables] = await Promise.all([worker.find(name), worker.tables()]);
          const isIt = (each: ListedTable): boolean =>
            each.database === found?.database && each.schema === found.schema && each.name === found.name;
          return tables.find(isIt);
        },
        cycles: async () => {
          const names = new Map<string, Promise<string | undefined>>();
          const found = await loads.newest(isAdministrator ? undefined : caller.id, listed);
          return Promise.all(found.map((cycle) => shown(cycle, names)));
        },
        cycle: async (id) => {
          const cycle = await find(id);
          return cycle === undefined ? undefined : shown(cycle, new Map());
        },
        receive: async (target, { name, content }, signal) => {
          const table = await worker.find(target);
          if (table === undefined) throw new InputError(dataTexts.noTable);
          const { database, schema, name: called } = table;
          const parameters = loadParameters.parse({ target: { database, schema, table: called } });
          const cycle = await loads.start(caller.id, parameters, fileNameOf(name));
          const upload = cycle.beginUpload(undefined);
          try {
            await upload.write(content, AbortSignal.any([signal, shutdown]));
            if (await upload.publish()) return cycle.id;
            throw new InputError("the load was cancelled while its file arrived");
          } catch (error) {
            await upload.end();
            await loads.cancel(cycle);
            throw error;
          } finally {
            await upload.end();
          }
        },
        sample: async (id) => {
          const { cycle, path } = await draft(id);
          return { name: cycle.file ?? "", ...(await beginningOf(path)) };
        },
        preview: async (id, request, signal) => {
          const found = await draft(id);
          const parameters = parametersOf(found.cycle, request);
          const { sample: bytes, isWhole } = await beginningOf(found.path);
          // Beside the chunks: what is there and is none of them goes with the cycle.
          const sample = join(dirname(found.path), `${randomUUID()}.sample`);
          try {
            await writeFile(sample, bytes, { mode: 0o600 });
            return await worker.preview({ parameters, sample, isWhole }, AbortSignal.any([signal, shutdown]));
          } catch (error) {
            throw writeError(error);
          } finally {
            await rm(sample, { force: true });
          }
        },
        load: async (id, request) => {
          const cycle = await find(id);
          // Somebody was quicker.
          if (cycle?.node === undefined && cycle?.isIngesting() === false) return;
          const found = await draft(id);
          if (await found.cycle.configure(parametersOf(found.cycle, request)))
            await loads.commit(found.cycle, undefined);
        },
        cancel: async (id) => {
          const cycle = await find(id);
          if (cycle !== undefined) await (cycle.node === undefined ? loads.cancel(cycle) : loads.cancelDistant(cycle));
        },
        badRecords: async (id) => {
          const cycle = await find(id);
          if (cycle?.outcome() === undefined || cycle.node !== undefined) return undefined;
          return (await sizeOf(cycle.badRecords)) === undefined ? undefined : createReadStream(cycle.badRecords);
        },
      };
    },
  };
}

/** The other node that has rejected rows which are not here. */
async function rejectedElsewhere(loads: Loads, cycle: Cycle): Promise<Node | undefined> {
  const isMissing = cycle.outcome() !== undefined && (await sizeOf(cycle.badRecords)) === undefined;
  return isMissing && cycle.status().ignored_row_count !== "0" ? loads.findRejected(cycle) : undefined;
}

function notReached(): UnavailableError {
  return new UnavailableError("the node of the service that has this file does not answer: try again");
}

/** @throws {InputError} when a format is not understood */
function parametersOf(cycle: Cycle, request: LoadRequest): LoadParameters {
  const parameters = loadParameters.parse({ ...request, target: cycle.parameters().target });
  checkFormats(parameters);
  return parameters;
}

/** A browser sends the name alone, other clients may send a path. */
function fileNameOf(name: string): string {
  return (name.split(/[/\\]/).at(-1) ?? "").slice(0, longestName) || "file";
}

/** Whole lines, as many as fit; a longer first line is cut. */
async function beginningOf(path: string): Promise<{ readonly sample: Buffer; readonly isWhole: boolean }> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    const { buffer, bytesRead } = await file.read(Buffer.alloc(Math.min(size, sampleSize)), 0, undefined, 0);
    const bytes = buffer.subarray(0, bytesRead);
    if (bytesRead === size) return { sample: bytes, isWhole: true };
    return { sample: bytes.subarray(0, bytes.lastIndexOf("\n") + 1 || undefined), isWhole: false };
  } finally {
    await file.close();
  }
}

async function sizeOf(file: string): Promise<number | undefined> {
  const found = await stat(file).catch(() => undefined);
  return found?.size;
}

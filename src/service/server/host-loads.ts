import { randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { open, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Readable } from "node:stream";
import type { FastifyReply, FastifyRequest } from "fastify";
import { InputError, UnavailableError } from "#errors.ts";
import { removeFile } from "#files/disk.ts";
import type { ListedTable, TableName } from "#service/engine/engine.ts";
import { writeError } from "#service/loads/capacity.ts";
import type { Cycle, DistantCycle, Node } from "#service/loads/cycle.ts";
import type { Loads } from "#service/loads/loads.ts";
import type { Preview } from "#service/loads/preview.ts";
import { checkFormats } from "#service/loads/start-request.ts";
import type { Caller } from "./callers.ts";
import type { ServerContext } from "./context.ts";
import { sizeOf } from "./data-routes.ts";
import { dataTexts } from "#wire/texts.ts";
import { loadParameters } from "#wire/loads.ts";
import type { LoadParameters, LoadRequest, LoadStatus } from "#wire/loads.ts";

/** A file as it arrives. */
export interface DroppedFile {
  readonly name: string;
  readonly content: Readable;
}

/** The beginning of a file. */
export interface FileSample {
  readonly name: string;
  readonly sample: Buffer;
  /** There is nothing after it. */
  readonly isWhole: boolean;
}

/** A cycle, as a page shows it. */
export interface HostedCycle {
  readonly id: string;
  readonly table: TableName;
  /** The name of the file that was dropped on the table. */
  readonly file: string | undefined;
  /** The name of who began it; undefined: the caller. */
  readonly by: string | undefined;
  /** Its file waits for somebody to look at how it would be read. */
  readonly isDraft: boolean;
  readonly parameters: LoadParameters;
  readonly status: LoadStatus;
  /** The size of the rejected rows, in bytes; undefined: there are none. */
  readonly badRecords: number | undefined;
}

/** How many cycles are listed. */
const listed = 100;

/** How much of a file is looked at, in bytes. */
const sampleSize = 1024 * 1024;

/** The longest name of a file, in characters. */
const longestName = 255;

/** The loads of the service, for pages on its listener: the same cycles, with the same rights (0.6, A.9). */
export class HostedLoads {
  /** The largest file, in bytes. */
  readonly largest: number;
  readonly #context: ServerContext;

  constructor(context: ServerContext) {
    this.largest = Math.min(context.limits.maxChunk, context.limits.maxCycle);
    this.#context = context;
  }

  /** The loads as the caller of a request may see them; undefined where they may not load data. */
  async of(request: FastifyRequest): Promise<CallersLoads | undefined> {
    const { callers } = this.#context;
    // Whether it is a use of the session was told when the account was looked up.
    const caller = await callers.find(request, false);
    if (caller === undefined) return undefined;
    const isAdministrator = await callers.holds(caller, "administration");
    if (!isAdministrator && !(await callers.holds(caller, "dataManagement"))) return undefined;
    return new CallersLoads(this.#context, caller, isAdministrator);
  }

  /**
   * Passes a request about a cycle on to the node of the service that has its data. Its body is not read yet.
   * @returns the reply when the answer comes from there
   */
  async passOn(request: FastifyRequest, reply: FastifyReply, id: string): Promise<FastifyReply | undefined> {
    const { callers, loads, forward } = this.#context;
    if (forward === undefined || forward.isForwarded(request)) return undefined;
    if ((await callers.find(request, false)) === undefined) return undefined;
    const cycle = await loads.find(id);
    const node = cycle?.node === undefined ? cycle && (await rejectedElsewhere(loads, cycle)) : cycle.node;
    return node === undefined ? undefined : forward.send(request, reply, node);
  }

  /** @param listener is called whenever a cycle begins, takes data, is committed or ends. @returns what stops that */
  subscribe(listener: () => void): () => void {
    return this.#context.loads.subscribe(listener);
  }

  /** Whether data is arriving or being loaded. */
  isBusy(): boolean {
    return this.#context.loads.isBusy();
  }
}

/** The loads as one caller may see them. */
export class CallersLoads {
  readonly #context: ServerContext;
  readonly #caller: Caller;
  readonly #isAdministrator: boolean;

  constructor(context: ServerContext, caller: Caller, isAdministrator: boolean) {
    this.#context = context;
    this.#caller = caller;
    this.#isAdministrator = isAdministrator;
  }

  tables(): Promise<readonly ListedTable[]> {
    return this.#context.worker.tables();
  }

  /** The table that a load with this name is for (A.22). */
  async table(name: TableName): Promise<ListedTable | undefined> {
    const { worker } = this.#context;
    const [found, tables] = await Promise.all([worker.find(name), worker.tables()]);
    return tables.find(
      (each) => each.database === found?.database && each.schema === found.schema && each.name === found.name,
    );
  }

  /** The newest cycles, the newest first: the caller's, or to an administrator everybody's. */
  async cycles(): Promise<readonly HostedCycle[]> {
    const names = new Map<string, Promise<string | undefined>>();
    const found = await this.#context.loads.newest(this.#isAdministrator ? undefined : this.#caller.id, listed);
    return Promise.all(found.map((cycle) => this.#shown(cycle, names)));
  }

  async cycle(id: string): Promise<HostedCycle | undefined> {
    const cycle = await this.#find(id);
    return cycle === undefined ? undefined : this.#shown(cycle, new Map());
  }

  /**
   * Begins a cycle of the caller with a file. It is a draft, which nobody has to load.
   * @returns its id
   * @throws {InputError} when there is no such table, or no room for the file: then nothing of it stays
   */
  async receive(target: TableName, { name, content }: DroppedFile, signal: AbortSignal): Promise<string> {
    const { loads, worker, shutdown } = this.#context;
    const table = await worker.find(target);
    if (table === undefined) throw new InputError(dataTexts.noTable);
    const { database, schema, name: called } = table;
    const parameters = loadParameters.parse({ target: { database, schema, table: called } });
    const cycle = await loads.start(this.#caller.id, parameters, fileNameOf(name));
    const upload = cycle.beginUpload(undefined);
    try {
      await upload.write(content, AbortSignal.any([signal, shutdown]));
      if (await cycle.publish(upload)) return cycle.id;
      throw new InputError("the load was cancelled while its file arrived");
    } catch (error) {
      await cycle.endUpload(upload);
      await loads.cancel(cycle);
      throw error;
    } finally {
      await cycle.endUpload(upload);
    }
  }

  /** The beginning of a draft's file: whole lines. @throws {InputError} when it is no draft any more */
  async sample(id: string): Promise<FileSample> {
    const { cycle, path } = await this.#draft(id);
    return { name: cycle.file ?? "", ...(await beginningOf(path)) };
  }

  /** How that would be read. @throws {InputError} when it is no draft any more, or cannot be read like this */
  async preview(id: string, request: LoadRequest, signal: AbortSignal): Promise<Preview> {
    const { worker, shutdown } = this.#context;
    const { cycle, path } = await this.#draft(id);
    const parameters = parametersOf(cycle, request);
    const { sample: bytes, isWhole } = await beginningOf(path);
    // Beside the chunks: what is there and is none of them goes with the cycle.
    const sample = join(dirname(path), `${randomUUID()}.sample`);
    try {
      await writeFile(sample, bytes, { mode: 0o600 });
      return await worker.preview({ parameters, sample, isWhole }, AbortSignal.any([signal, shutdown]));
    } catch (error) {
      throw writeError(error);
    } finally {
      await removeFile(sample);
    }
  }

  /** Loads a draft. Nothing happens if that was begun already. @throws {InputError} */
  async load(id: string, request: LoadRequest): Promise<void> {
    const found = await this.#find(id);
    // Somebody was quicker.
    if (found?.node === undefined && found?.isIngesting() === false) return;
    const { cycle } = await this.#draft(id);
    if (await cycle.configure(parametersOf(cycle, request))) await this.#context.loads.commit(cycle, undefined);
  }

  /** Ends a cycle at any stage. */
  async cancel(id: string): Promise<void> {
    const { loads } = this.#context;
    const cycle = await this.#find(id);
    if (cycle !== undefined) await (cycle.node === undefined ? loads.cancel(cycle) : loads.cancelDistant(cycle));
  }

  /** The rejected rows, exactly as they were sent; undefined: there are none. */
  async badRecords(id: string): Promise<Readable | undefined> {
    const cycle = await this.#find(id);
    if (cycle?.outcome() === undefined || cycle.node !== undefined) return undefined;
    return (await sizeOf(cycle.badRecords)) === undefined ? undefined : createReadStream(cycle.badRecords);
  }

  async #find(id: string): Promise<Cycle | DistantCycle | undefined> {
    const cycle = await this.#context.loads.find(id);
    return this.#isAdministrator || cycle?.owner === this.#caller.id ? cycle : undefined;
  }

  async #draft(id: string): Promise<{ readonly cycle: Cycle; readonly path: string }> {
    const cycle = await this.#find(id);
    if (cycle?.node !== undefined)
      throw new UnavailableError("the node of the service that has this file does not answer: try again");
    const [path] = cycle?.arrived() ?? [];
    if (cycle?.isDraft() !== true || path === undefined)
      throw new InputError("this file is gone: it was loaded, discarded, or not opened for an hour");
    cycle.use();
    return { cycle, path };
  }

  /** @param names of accounts, by their ids: each is looked up once */
  async #shown(cycle: Cycle | DistantCycle, names: Map<string, Promise<string | undefined>>): Promise<HostedCycle> {
    const { owner } = cycle;
    if (!names.has(owner)) names.set(owner, this.#context.directory.store.nameOf(owner));
    const parameters = cycle.parameters();
    return {
      id: cycle.id,
      table: parameters.target,
      file: cycle.file,
      by: owner === this.#caller.id ? undefined : ((await names.get(owner)) ?? "a deleted account"),
      isDraft: cycle.isDraft(),
      parameters,
      status: cycle.status(),
      badRecords:
        cycle.node !== undefined || cycle.outcome() === undefined ? undefined : await sizeOf(cycle.badRecords),
    };
  }
}

/** The other node that has rejected rows which are not here. */
async function rejectedElsewhere(loads: Loads, cycle: Cycle): Promise<Node | undefined> {
  const isMissing = cycle.outcome() !== undefined && (await sizeOf(cycle.badRecords)) === undefined;
  return isMissing && cycle.status().ignored_row_count !== "0" ? loads.findRejected(cycle) : undefined;
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
  await using file = await open(path);
  const { size } = await file.stat();
  const { buffer, bytesRead } = await file.read(Buffer.alloc(Math.min(size, sampleSize)), 0, undefined, 0);
  const bytes = buffer.subarray(0, bytesRead);
  if (bytesRead === size) return { sample: bytes, isWhole: true };
  return { sample: bytes.subarray(0, bytes.lastIndexOf("\n") + 1 || undefined), isWhole: false };
}

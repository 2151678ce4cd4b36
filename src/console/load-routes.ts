import { unpacked } from "#files/unpack.ts";
import { text } from "node:stream/consumers";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { Refusal } from "#control/answers.ts";
import { errorDocument, InputError, RollcallError } from "#errors.ts";
import type { ErrorDocument } from "#errors.ts";
import { readMultipart } from "#http/multipart.ts";
import type { CallersLoads, HostedCycle, HostedLoads, HostedTable, Preview, TableName } from "#service/host.ts";
import { inBytes } from "#text.ts";
import { loadParameters } from "#wire/loads.ts";
import { checkToken } from "./accounts.ts";
import { download, formOf, untilLeft, visitorOf } from "./context.ts";
import type { AppOptions, FormatGuess, Send } from "./context.ts";
import { at } from "./html.ts";
import type { Frame } from "./layout.ts";
import { tokenField } from "./layout.ts";
import { fieldsOf, labels, readFields, requestOf } from "./load-form.ts";
import type { FieldName, LoadFields } from "./load-form.ts";
import { cancellation, cycle, draft } from "#console/pages/load.ts";
import { elsewhere, loads as loadsPage, table as tablePage, tableAddress } from "#console/pages/loads.ts";
import { filled } from "./selection.ts";

const route = { config: { forLoads: true } } as const;

/** Adds the pages of tables and loads. */
export function addLoadPages(scope: FastifyInstance, options: AppOptions, send: Send): void {
  const { loads: hosted } = options;
  if (hosted === undefined) {
    scope.get("/loads", route, async (request, reply) =>
      send(request, reply, frame("Loads"), elsewhere({ target: visitorOf(request).target })),
    );
    return;
  }
  const pages = new LoadPages(hosted, options, send);
  const upload = { config: { forLoads: true, takesFile: true } } as const;
  scope.get("/loads", route, (request, reply) => pages.list(request, reply));
  scope.get("/loads/table", route, (request, reply) => pages.table(request, reply));
  scope.post("/loads/upload", upload, (request, reply) => pages.upload(request, reply));
  scope.get("/loads/:id", route, (request, reply) => pages.show(request, reply));
  scope.post("/loads/:id/preview", route, (request, reply) => pages.preview(request, reply));
  scope.post("/loads/:id/load", route, (request, reply) => pages.load(request, reply));
  scope.get("/loads/:id/cancel", route, (request, reply) => pages.askToCancel(request, reply));
  scope.post("/loads/:id/cancel", route, (request, reply) => pages.cancel(request, reply));
  scope.get("/loads/:id/bad-records", route, (request, reply) => pages.badRecords(request, reply));
}

/** The pages of tables and loads of a service on this listener. */
class LoadPages {
  readonly #hosted: HostedLoads;
  readonly #guessFormat: AppOptions["guessFormat"];
  readonly #send: Send;
  readonly #size: { readonly largest: number; readonly text: string };
  readonly #typed = new TypedFields();

  constructor(hosted: HostedLoads, { guessFormat }: AppOptions, send: Send) {
    this.#hosted = hosted;
    this.#guessFormat = guessFormat;
    this.#send = send;
    this.#size = { largest: hosted.largest, text: inBytes(hosted.largest) };
  }

  async list(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const mine = await this.#loadsOf(request);
    const [tables, cycles] = await Promise.all([mine.tables(), mine.cycles()]);
    const page = loadsPage({ now: Date.now(), tables, cycles, size: this.#size });
    return this.#send(request, reply, { ...frame("Loads"), live: "/loads", liveBy: "loads" }, page);
  }

  async table(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const mine = await this.#loadsOf(request);
    const table = await tableOf(request, mine);
    const cycles = (await mine.cycles()).filter((each) => isInto(each, table)).slice(0, 10);
    const token = tokenField(visitorOf(request));
    const page = tablePage({ now: Date.now(), table, cycles, size: this.#size, token });
    return this.#send(request, reply, frame(table.name), page);
  }

  async upload(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const visitor = visitorOf(request);
    const mine = await this.#loadsOf(request);
    const into = tableNameOf(request);
    const { "content-length": length, "content-type": type = "" } = request.headers;
    const { largest, text: most } = this.#size;
    if (Number(length ?? 0) > largest) throw new Refusal(413, `The file is too large: it may have ${most}.`);
    const left = untilLeft(reply);
    let token: string | undefined;
    let id: string | undefined;
    const reading = readMultipart(request.raw, type, {
      take: async ({ name, filename = "", content }) => {
        if (name === "token") {
          token = (await text(content)).slice(0, 200);
          return;
        }
        if (name !== "file" || id !== undefined) {
          content.resume();
          return;
        }
        // The form has it before the file: nothing of a forged one is written.
        checkToken(visitor, token);
        if (filename === "") throw new Refusal(400, "Choose a file first.");
        id = await mine.receive(into, { name: filename, content: unpacked(filename, content) }, left);
      },
      malformed: (cause) => new InputError("the form did not arrive as a whole: send it again", { cause }),
    });
    await reading.catch((error: unknown) => {
      // Nobody waits for what went wrong then.
      throw left.aborted ? left.reason : error;
    });
    checkToken(visitor, token);
    if (id === undefined) throw new Refusal(400, "Choose a file first.");
    return reply.redirect(at("/loads", id), 303);
  }

  /** A load, or the draft of one. */
  async show(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const mine = await this.#loadsOf(request);
    const found = await cycleOf(request, mine);
    if (found.isDraft) {
      const { guess, problem } = await this.#guess(mine, found);
      const fields =
        this.#typed.of(found) ??
        fieldsOf(loadParameters.parse({ target: found.parameters.target, format: guess?.format }));
      return this.#sendDraft(request, reply, mine, found, { fields, guess, problem });
    }
    const page = cycle({ now: Date.now(), cycle: found });
    const live = { live: at("/loads", found.id), liveBy: "loads" } as const;
    return this.#send(request, reply, { ...frame(titleOf(found)), ...live }, page);
  }

  /** The draft as it would be read with other values; changes nothing. */
  async preview(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const mine = await this.#loadsOf(request);
    const found = await cycleOf(request, mine);
    if (!found.isDraft) return reply.redirect(at("/loads", found.id), 303);
    const { guess } = await this.#guess(mine, found);
    const fields = this.#typed.keep(found, readFields(formOf(request)));
    return this.#sendDraft(request, reply, mine, found, { fields, guess });
  }

  async load(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const mine = await this.#loadsOf(request);
    const found = await cycleOf(request, mine);
    const fields = this.#typed.keep(found, readFields(formOf(request)));
    try {
      await mine.load(found.id, requestOf(fields));
    } catch (error) {
      const problem = problemOf(error);
      const { guess } = await this.#guess(mine, found);
      return await this.#sendDraft(request, reply.code(400), mine, found, { fields, guess, problem });
    }
    return reply.redirect(at("/loads", found.id), 303);
  }

  async askToCancel(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const mine = await this.#loadsOf(request);
    const found = await cycleOf(request, mine);
    // A draft is discarded on its own page; what has ended cannot be cancelled.
    if (found.isDraft || found.status.internal_stage === "DONE") return reply.redirect(at("/loads", found.id), 303);
    const page = cancellation({ now: Date.now(), cycle: found, token: tokenField(visitorOf(request)) });
    return this.#send(request, reply, frame(titleOf(found)), page);
  }

  async cancel(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const mine = await this.#loadsOf(request);
    const found = await cycleOf(request, mine);
    await mine.cancel(found.id);
    return reply.redirect(found.isDraft ? tableAddress(found.table) : at("/loads", found.id), 303);
  }

  async badRecords(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const mine = await this.#loadsOf(request);
    const found = await cycleOf(request, mine);
    const rejected = await mine.badRecords(found.id);
    if (rejected === undefined) throw new Refusal(404, "this load has no bad records");
    return download(reply, `bad-records-${found.id}.csv`, "text/plain; charset=utf-8").send(rejected);
  }

  async #loadsOf(request: FastifyRequest): Promise<CallersLoads> {
    const mine = await this.#hosted.of(request);
    if (mine !== undefined) return mine;
    throw new Refusal(
      403,
      `the account ${visitorOf(request).name} lacks the data management privilege: \`service.privileges\` says which groups have it`,
    );
  }

  async #sendDraft(
    request: FastifyRequest,
    reply: FastifyReply,
    mine: CallersLoads,
    found: HostedCycle,
    { fields, guess, problem: known }: ShownDraft,
  ): Promise<FastifyReply> {
    const table = await mine.table(found.table);
    let problem = known;
    let preview: Preview | undefined;
    try {
      preview = await mine.preview(found.id, requestOf(fields), untilLeft(reply));
    } catch (error) {
      problem ??= problemOf(error);
    }
    const token = tokenField(visitorOf(request));
    const page = draft({ now: Date.now(), cycle: found, table, fields, guess, preview, problem, token });
    return this.#send(request, reply, frame(titleOf(found)), page);
  }

  async #guess(mine: CallersLoads, { id, table: into }: HostedCycle): Promise<Pick<ShownDraft, "guess" | "problem">> {
    try {
      const [sample, table] = await Promise.all([mine.sample(id), mine.table(into)]);
      return { guess: await this.#guessFormat(sample, table?.columns ?? [], labelOf) };
    } catch (error) {
      return { problem: problemOf(error) };
    }
  }
}

/** What was entered for the last drafts, kept for the next visit. */
class TypedFields {
  readonly #fields = new Map<string, LoadFields>();

  of({ id }: HostedCycle): LoadFields | undefined {
    return this.#fields.get(id);
  }

  keep({ id }: HostedCycle, fields: LoadFields): LoadFields {
    this.#fields.delete(id);
    this.#fields.set(id, fields);
    const [oldest] = this.#fields.keys();
    if (this.#fields.size > 100 && oldest !== undefined) this.#fields.delete(oldest);
    return fields;
  }
}

interface ShownDraft {
  readonly fields: LoadFields;
  readonly guess?: FormatGuess | undefined;
  readonly problem?: ErrorDocument | undefined;
}

/** What a person should know of an error. @throws the error, if that is for the log */
function problemOf(error: unknown): ErrorDocument {
  if (error instanceof Refusal) return { message: error.message, problems: [...error.problems], advice: "fix" };
  if (error instanceof RollcallError) return errorDocument(error);
  throw error;
}

async function cycleOf(request: FastifyRequest, mine: CallersLoads): Promise<HostedCycle> {
  const { id = "" } = request.params as { id?: string };
  const found = await mine.cycle(id);
  if (found === undefined)
    throw new Refusal(404, "there is no such load, or it is forgotten: `service.loads.expireAfter` says when");
  return found;
}

function tableNameOf(request: FastifyRequest): TableName {
  const { database, schema, table } = filled(request.query);
  if (typeof database !== "string" || typeof schema !== "string" || typeof table !== "string")
    throw new Refusal(400, "the address names no table: it needs `database`, `schema` and `table`");
  return { database, schema, table };
}

async function tableOf(request: FastifyRequest, mine: CallersLoads): Promise<HostedTable> {
  const name = tableNameOf(request);
  const found = await mine.table(name);
  if (found === undefined) throw new Refusal(404, `there is no table ${name.database}.${name.schema}.${name.table}`);
  return found;
}

function isInto({ table: { database, schema, table } }: HostedCycle, other: HostedTable): boolean {
  const [one, two] = [
    [database, schema, table],
    [other.database, other.schema, other.name],
  ].map((parts) => JSON.stringify(parts).toLowerCase());
  return one === two;
}

/** An option of the format in a message, as its field is labelled. */
function labelOf(option: string): string {
  return `“${labels[option as FieldName] ?? option}”`;
}

function titleOf({ file, table }: HostedCycle): string {
  return file === undefined ? `Load into ${table.table}` : `${file} into ${table.table}`;
}

function frame(title: string): Pick<Frame, "title" | "section"> {
  return { title, section: "loads" };
}

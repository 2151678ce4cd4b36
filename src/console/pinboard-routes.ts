import { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { HostPinboard, HostPinboards, HostVisualization, PinboardData } from "#service/host.ts";
import { answerOf, Refusal } from "#control/answers.ts";
import { InputError, messageOf, UnavailableError } from "#errors.ts";
import { csvLine } from "#plan/render/csv.ts";
import { inChunks } from "#plan/render/shared.ts";
import { formatNumber } from "#text.ts";
import { isNumeric } from "#console/charts/columns.ts";
import type { Result } from "#console/charts/columns.ts";
import { figureOf } from "#console/charts/figure.ts";
import type { Figure, FigureSize } from "#console/charts/figure.ts";
import { download, offsetOf, untilLeft, visitorOf } from "./context.ts";
import type { AppOptions, Send } from "./context.ts";
import type { Html } from "./html.ts";
import type { Frame } from "./layout.ts";
import { at } from "./html.ts";
import { card, pinboard, pinboards, single } from "#console/pages/pinboards.ts";
import type { Drawn, Page, Shown } from "#console/pages/pinboards.ts";
import { filled } from "./selection.ts";

/** How many rows are read: for a table on a pinboard, for a page of one, for a chart. */
const sizes = { card: 10, page: 100, chart: 10_000 } as const;

/** The largest answer that is read for a page, in bytes: a value may be a document. */
const mostBytes = 8 * 2 ** 20;

/** A pinboard waits so long for its visualizations, in milliseconds; what comes later is fetched by itself. */
const patience = 1500;

/** What was not fetched again by then is stopped, in milliseconds. */
const grace = 5000;

/** How much of a pinboard is sent at once, in bytes. */
const mostAtOnce = 200_000;

/** The most visualizations that are asked for at once. */
const mostTogether = 24;

/** A signed-in account that asks, until its connection closes. */
interface Asking {
  readonly account: string;
  readonly signal: AbortSignal;
}

/** There are rows, but a page has no room for them. */
class TooLargeError extends InputError {}

/** Adds the pages of the service's pinboards. They show what `pinboarddata` answers, under its limits. */
export function addPinboardPages(scope: FastifyInstance, options: AppOptions, send: Send): void {
  const pages = new PinboardPages(options, send);
  scope.get("/pinboards", (request, reply) => pages.list(request, reply));
  scope.get("/pinboards/:id", (request, reply) => pages.board(request, reply));
  scope.get("/pinboards/:id/:visualization", (request, reply) => pages.visualization(request, reply));
  scope.get("/pinboards/:id/:visualization/download", (request, reply) => pages.download(request, reply));
}

class PinboardPages {
  readonly #hosted: HostPinboards | undefined;
  readonly #log: AppOptions["log"];
  readonly #send: Send;

  constructor({ pinboards: hosted, log }: AppOptions, send: Send) {
    this.#hosted = hosted;
    this.#log = log;
    this.#send = send;
  }

  async list(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    return this.#send(request, reply, frame("Pinboards"), pinboards({ now: Date.now(), list: this.#known().list() }));
  }

  async board(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const board = this.#boardOf(request);
    const left = untilLeft(reply);
    const late = new AbortController();
    const signal = AbortSignal.any([left, late.signal]);
    const account = visitorOf(request).name;
    const wait = delay(patience, undefined, { ref: false });
    const shown = await Promise.all(
      board.visualizations.map(async (visualization, index): Promise<Shown> => {
        if (index >= mostTogether) return { kind: "later" };
        const work = this.#show(board, visualization, { as: "card" }, { signal, account });
        // The page that fetches it by itself shares the query that is under way.
        work.catch(() => undefined);
        return (await Promise.race([work, wait])) ?? { kind: "later" };
      }),
    );
    setTimeout(() => {
      late.abort(new UnavailableError("nobody waits for it any more"));
    }, grace).unref();
    left.throwIfAborted();
    return this.#send(request, reply, frame(board.name), pinboard(board, fitting(board, shown)));
  }

  async visualization(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const [board, visualization] = [this.#boardOf(request), this.#visualizationOf(request)];
    const { from, as } = filled(request.query);
    const signal = untilLeft(reply);
    const isCard = as === "card";
    const extent = isCard ? ({ as: "card" } as const) : { as: "page" as const, from: offsetOf(from) };
    const shown = await this.#show(board, visualization, extent, { signal, account: visitorOf(request).name });
    if (shown.kind === "problem" && request.headers["hx-request"] === undefined) reply.code(shown.status ?? 500);
    const page = { pinboard: board, visualization, shown };
    const crumbs = [{ label: board.name, href: at("/pinboards", board.id) }, { label: visualization.title }];
    return this.#send(request, reply, { ...frame(visualization.title), crumbs }, isCard ? card(page) : single(page));
  }

  async download(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const [board, visualization] = [this.#boardOf(request), this.#visualizationOf(request)];
    const asking = { signal: untilLeft(reply), account: visitorOf(request).name };
    const answer = await this.#ask(board, visualization, {}, asking);
    reply.raw.once("close", () => {
      answer.release();
    });
    return download(reply, `${visualization.id}.csv`).send(
      Readable.from(inChunks(resultAsCsv(answer)), { objectMode: false }),
    );
  }

  #known(): HostPinboards {
    if (this.#hosted === undefined) throw new Refusal(404, "pinboards belong to a service, and this console has none");
    return this.#hosted;
  }

  #boardOf({ params }: FastifyRequest): HostPinboard {
    const { id = "" } = params as { id?: string };
    const found = this.#known()
      .list()
      .find((each) => each.id.toLowerCase() === id.toLowerCase());
    if (found === undefined) throw new Refusal(404, "there is no such pinboard");
    return found;
  }

  #visualizationOf(request: FastifyRequest): HostVisualization {
    const { visualization: id = "" } = request.params as { visualization?: string };
    const found = this.#boardOf(request).visualizations.find((each) => each.id.toLowerCase() === id.toLowerCase());
    if (found === undefined) throw new Refusal(404, "there is no such visualization on this pinboard");
    return found;
  }

  #ask(
    board: HostPinboard,
    { id }: HostVisualization,
    paging: { readonly offset?: number; readonly size?: number },
    { signal, account }: Asking,
  ): Promise<PinboardData> {
    const [pinboard, visualizations] = [board.id.toLowerCase(), [id.toLowerCase()]];
    return this.#known().data({ pinboard, visualizations, format: "COMPACT", paging }, signal, account);
  }

  async #read(
    board: HostPinboard,
    visualization: HostVisualization,
    page: { readonly offset: number; readonly size: number },
    asking: Asking,
  ): Promise<Page> {
    const answer = await this.#ask(board, visualization, page, asking);
    try {
      if (answer.size > mostBytes)
        throw new TooLargeError(
          `The rows have ${formatNumber(Math.ceil(answer.size / 2 ** 20))} MiB, which is too much for a page. Download them, or select less.`,
        );
      const text = Buffer.concat(await Array.fromAsync(answer.read())).toString();
      const [data] = Object.values(JSON.parse(text) as Record<string, Result & { data: Result["rows"] }>);
      if (data === undefined) throw new Error("the answer has no visualization");
      const { columnNames, data: rows, totalRowCount } = data;
      return { columnNames, rows, totalRowCount, offset: page.offset, pageSize: page.size };
    } finally {
      answer.release();
    }
  }

  /** What a visualization shows, or why it cannot: the others are shown all the same. */
  async #show(
    board: HostPinboard,
    visualization: HostVisualization,
    extent: { readonly as: "card" } | { readonly as: "page"; readonly from: number },
    asking: Asking,
  ): Promise<Shown> {
    const offset = extent.as === "page" ? extent.from : 0;
    const size = sizes[extent.as];
    try {
      if (visualization.type !== "CHART")
        return { kind: "rows", result: await this.#read(board, visualization, { offset, size }, asking) };
      const whole = await this.#read(board, visualization, { offset: 0, size: sizes.chart }, asking);
      const hasPage = offset + size <= whole.rows.length || whole.rows.length === whole.totalRowCount;
      const result = hasPage
        ? { ...whole, rows: whole.rows.slice(offset, offset + size), offset, pageSize: size }
        : await this.#read(board, visualization, { offset, size }, asking);
      const chart = drawn(whole, visualization, extent.as === "card" ? ["narrow"] : ["narrow", "wide"]);
      return { kind: "rows", result, chart };
    } catch (error) {
      asking.signal.throwIfAborted();
      const { status, document, unexpected } = answerOf(error);
      if (unexpected) this.#log.error({ err: error }, `console: pinboard ${board.name}: ${messageOf(error)}`);
      const { message, problems } = document.error;
      return { kind: "problem", message, problems, status, isLarge: error instanceof TooLargeError };
    }
  }
}

/** A chart in each of the sizes. */
function drawn(result: Result, { chart }: HostVisualization, sizes: readonly FigureSize[]): Drawn | undefined {
  if (result.totalRowCount === 0) return undefined;
  const figures: Figure[] = [];
  for (const size of sizes) {
    const figure = figureOf(result, chart, size);
    if ("problem" in figure) return figure;
    figures.push(figure);
  }
  return { figures };
}

/** The cards of a pinboard, as many as a page has room for; the others are fetched when they come into sight. */
function fitting(board: HostPinboard, shown: readonly Shown[]): Html[] {
  let length = 0;
  return board.visualizations.map((visualization, index) => {
    const whole = card({ pinboard: board, visualization, shown: shown[index] ?? { kind: "later" } });
    length += Buffer.byteLength(whole.toString());
    if (length <= mostAtOnce || shown[index]?.kind === "later") return whole;
    return card({ pinboard: board, visualization, shown: { kind: "later" } });
  });
}

/** An answer as CSV for a spreadsheet: a header, then its rows as they come. */
async function* resultAsCsv(answer: PinboardData): AsyncGenerator<string> {
  // Loaded with the first download.
  const { JSONParser } = await import("@streamparser/json");
  const lines: string[] = [];
  const parser = new JSONParser({ paths: ["$.*.columnNames", "$.*.data.*"], keepStack: false });
  parser.onValue = ({ value }) => {
    lines.push(`${(value as readonly unknown[]).map(csvValue).join(",")}\n`);
  };
  yield "\uFEFF";
  for await (const piece of answer.read()) {
    parser.write(piece);
    yield lines.splice(0).join("");
  }
}

/** A number stays one; an apostrophe would make `-5` text. */
function csvValue(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (isNumeric(value)) return String(value);
  return csvLine([typeof value === "string" ? value : JSON.stringify(value)]).trimEnd();
}

function frame(title: string): Omit<Frame, "version" | "visitor"> {
  return { title, section: "pinboards" };
}

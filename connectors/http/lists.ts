import { InputError, RefusedError } from "#errors.ts";
import type { Answer } from "#http/client.ts";
import type { DirectoryApi } from "#http/directory/api.ts";
import type { Refusal } from "#http/directory/authorization.ts";
import { linkIn } from "#http/directory/pages.ts";
import type { Page, Paging } from "#http/directory/pages.ts";
import type { Proof, ProvenList } from "#http/directory/proof.ts";
import { answerIn, pageIn } from "./content.ts";
import type { Content, Item, Part } from "./content.ts";
import { urlOf } from "./options.ts";
import type { ListOptions, NextOptions, Options } from "./options.ts";
import { keyIn, valueAt } from "./path.ts";
import type { Path } from "./path.ts";

/** A record, and where it was found. */
export interface Found {
  readonly item: Item;
  /** The URL of its list, without parameters. */
  readonly place: string;
  /** For messages: `source hr`. */
  readonly subject: string;
}

/** One list, as declared. */
export interface Declared extends Pick<Content, "ids" | "references"> {
  readonly options: Pick<Options, "attempts" | "url">;
  readonly list: ListOptions;
  /** The setting for the fewest there must be, where it is not written. */
  readonly unset?: string | undefined;
  /** The record that the list belongs to. */
  readonly parent?: { readonly item: Item; readonly id: string } | undefined;
}

/**
 * How a declared list is read.
 * @param idOf what identifies a record of it. @throws {InputError} it has none
 */
export function listOf(
  api: DirectoryApi,
  { options, list, ids, references, unset, parent }: Declared,
  idOf: (found: Found) => string,
): ProvenList<Found> {
  const url = addressOf(options, list.url, parent?.id);
  if (list.size !== undefined) url.searchParams.set(list.size.parameter, `${list.size.count}`);
  const title = api.titleOf(url);
  const place = `${url.origin}${url.pathname}`;
  const page = ({ items, around }: Part, next?: string): Page<Found> => ({
    items: items.map((item) => ({ item, place, subject: api.subject })),
    next,
    total: totalIn(list.proof, around, title),
  });
  const { next } = list;
  const content = { ...list, ids, references };
  return {
    url,
    paging: pagingOf(list),
    get:
      next === undefined
        ? async function* get(at) {
            for await (const part of answerIn(api, at, content)) yield page(part);
          }
        : (at, isFirst) =>
            api.get({
              url: at,
              body: list.body,
              refused: isFirst || "link" in next || "cursor" in next ? undefined : beyondTheLast(list, api.titleOf(at)),
              use: async (answer) => {
                const part = await pageIn(answer, content, api.titleOf(at));
                return page(part, nextIn(next, part, answer, api.titleOf(at)));
              },
            }),
    idOf,
    proof: proofOf(api, { options, list, parent }, url),
    unset,
    attempts: options.attempts,
  };
}

/** The URL of a declared place. @param id what `{id}` stands for */
export function addressOf({ url }: Pick<Options, "url">, place: string, id = ""): URL {
  // In a path these would lead to another list.
  if (id === "." || id === "..") throw new InputError(`the id ${id} cannot stand for {id} in ${place}`);
  const found = urlOf(url, place.replaceAll("{id}", encodeURIComponent(id)));
  if (found === undefined) throw new InputError(`${place} is no URL below ${url}`);
  return found;
}

function pagingOf({ next, size }: ListOptions): Paging {
  if (next === undefined) return { by: "none" };
  if ("link" in next) return { by: "link", size: size?.count };
  if ("cursor" in next) return { by: "cursor", parameter: next.parameter, size: size?.count };
  const numbered = { start: next.start, size: size?.count };
  if ("offset" in next) return { by: "offset", parameter: next.offset, ...numbered };
  return { by: "page", parameter: next.page, ...numbered };
}

/**
 * Some services refuse the page after the last one. That is an end where a number proves that nothing is missing before it.
 * @throws {RefusedError} nothing does
 */
function beyondTheLast({ proof }: ListOptions, title: string) {
  return ({ status }: Refusal): { readonly value: Page<Found> } | undefined => {
    if (status !== 404 && status !== 416) return undefined;
    if (typeof proof === "object" && !("reversed" in proof)) return { value: { items: [] } };
    throw new RefusedError(
      `${title} answered ${status}, as some services do after the last page, but nothing proves that it was the last: set proof: { total } or { count }, or next: { link } if the service has one`,
      { status },
    );
  };
}

/** @throws {InputError} the field is missing, or has something else */
function nextIn(next: NextOptions, { around }: Part, { headers }: Answer, title: string): string | undefined {
  if (!("link" in next || "cursor" in next)) return undefined;
  const path = "link" in next ? next.link : next.cursor;
  if (path === "header") return linkIn(headers);
  const value = valueAt(around, path);
  if (value === undefined && next.always)
    throw new InputError(`${title}: the answer has no ${path.text} (next), which every page has`);
  if (value === undefined || value === null || value === "" || value === false) return undefined;
  const text = keyIn(value);
  if (text !== undefined) return text;
  throw new InputError(`${title}: ${path.text} (next) is neither a text nor a number`);
}

function totalIn(proof: ListOptions["proof"], around: unknown, title: string): number | undefined {
  if (typeof proof !== "object" || !("total" in proof)) return undefined;
  const value = valueAt(around, proof.total);
  return value === undefined || value === null ? undefined : numberIn(value, `${title}: ${proof.total.text}`);
}

/** @throws {InputError} it is no whole number */
function numberIn(value: unknown, name: string): number {
  const text = keyIn(value);
  if (text !== undefined && /^\d{1,15}$/.test(text)) return Number(text);
  throw new InputError(`${name} is not a whole number`);
}

function proofOf(api: DirectoryApi, { options, list, parent }: Omit<Declared, "ids">, url: URL): Proof {
  const { proof } = list;
  if (proof === "end") return { by: "end" };
  if (proof === "twoEqualReads") return { by: "twoEqualReads" };
  if ("total" in proof) return { by: "total", name: proof.total.text };
  if ("reversed" in proof) {
    const second = new URL(url);
    for (const [name, value] of Object.entries(proof.reversed)) second.searchParams.set(name, value);
    return { by: "twoEqualReads", url: second };
  }
  if ("expected" in proof) {
    const name = `${proof.expected.text} of the group ${parent?.id ?? ""}`;
    return { by: "expected", name, count: numberIn(valueAt(parent?.item, proof.expected), name) };
  }
  const counting = addressOf(options, proof.count, parent?.id);
  return { by: "count", count: () => countAt(api, counting, proof.at) };
}

async function countAt(api: DirectoryApi, url: URL, at: Path | undefined): Promise<number> {
  const { value } = await api.json(url);
  const found = at === undefined ? value : valueAt(value, at);
  return numberIn(found, `${api.titleOf(url)}: ${at === undefined ? "the answer" : at.text} (proof)`);
}

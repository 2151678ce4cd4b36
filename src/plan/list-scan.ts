import { InputError } from "#errors.ts";
import { formatNumber } from "#text.ts";

/** The fields of a principal (specification 2.7). */
export const principalFields = [
  "name",
  "displayName",
  "description",
  "mail",
  "principalTypeEnum",
  "password",
  "groupNames",
] as const;
export type PrincipalField = (typeof principalFields)[number];

/** The fields of an element that have another type than specification 2.7's; `null` has the type of every field. */
export interface WrongTypes {
  /** Of the element, from 0. */
  readonly index: number;
  /** Undefined: the element is no object at all. */
  readonly fields: readonly PrincipalField[] | undefined;
}

/** What no principal has, and what would take all of DuckDB's memory. */
const [deepestElement, mostElementValues] = [250_000, 1_000_000];

/** Of how many elements wrong types are told. */
const mostWrong = 100;

const fieldNames = principalFields.map((field) => Buffer.from(field));
const typeField = principalFields.indexOf("principalTypeEnum");
const groupNamesField = principalFields.indexOf("groupNames");

/** What a group has not: whatever is there is ignored (B.5). */
const userFields: ReadonlySet<PrincipalField> = new Set(["mail", "password"]);

const typeNames = ["LOCAL_GROUP", "LOCAL_USER"].map((type) => Buffer.from(type));

/** The longest of these, each character escaped, in bytes. */
const longestText = 6 * 17;
const nothing = Buffer.alloc(0);

/**
 * Reads a JSON array of principal objects as it arrives, byte by byte: where its elements end, which types their fields have,
 * and what JSON forbids although DuckDB's reader accepts it: an empty file, a byte order mark, a comma without a value before
 * or behind it, something after the array, `NaN` and `Infinity`, other white space, a missing end. All else is DuckDB's to refuse.
 */
export class ListScan {
  /** How many elements have ended. */
  elements = 0;
  /** The elements with wrong types, the first hundred. */
  readonly wrong: WrongTypes[] = [];
  /** The first field that an element gives twice. */
  repeated: { readonly index: number; readonly field: PrincipalField } | undefined;

  #offset = 0;
  #depth = 0;
  /** In the element, at any depth. */
  #values = 0;
  #isBegun = false;
  #isString = false;
  #isEscape = false;
  /** The last byte outside of strings that is no white space. */
  #last = 0;

  /** The element is an object. */
  #isObject = false;
  /** Its type, as its place in `typeNames`; -1: another, or none yet. */
  #type = -1;
  /** The field whose value is read, as its place in `principalFields`; -1: another. */
  #field = -1;
  /** The fields that the element has, and those of a wrong type, as bits. */
  #seen = 0;
  #wrong = 0;
  /** What is being read is a key of the element, or its type. */
  #text: "key" | "type" | undefined;
  /** Where that begins in these bytes; what came before in `#before`. */
  #textAt = 0;
  #before = nothing;

  /**
   * Takes the next bytes.
   * @returns where the last comma between two elements is in them; -1: there is none
   * @throws {InputError} at the first byte that JSON does not have there
   */
  scan(bytes: Buffer): number {
    let cut = -1;
    this.#textAt = 0;
    for (let at = 0; at < bytes.length; at++) {
      if (this.#isEscape) {
        this.#isEscape = false;
        continue;
      }
      if (this.#isString) {
        at = skipText(bytes, at);
        const byte = bytes[at];
        this.#isEscape = byte === backslash;
        if (byte !== quote) continue;
        this.#isString = false;
        if (this.#text !== undefined) this.#endText(bytes, at);
        continue;
      }
      const byte = bytes[at] as number;
      if (byte > space) {
        if (this.#take(byte, at)) cut = at;
      } else if (byte !== space && byte !== lineFeed && byte !== tab && byte !== carriageReturn) {
        throw notJsonAt(this.#offset + at, "no other white space than spaces, tabs and line ends");
      }
    }
    if (this.#text !== undefined && this.#before.length <= longestText) {
      this.#before = Buffer.concat([this.#before, bytes.subarray(this.#textAt)]);
    }
    this.#offset += bytes.length;
    return cut;
  }

  /** @throws {InputError} when the list is not complete */
  end(): void {
    if (!this.#isBegun) throw notJsonAt(this.#offset, "an array in [ ]");
    if (this.#isString) throw notJsonAt(this.#offset, "a double quote at the end of the string");
    if (this.#depth > 0) throw notJsonAt(this.#offset, "a comma, or the end of the array or object");
    this.#endElement();
  }

  /** Takes a byte outside of strings that is no white space. @returns whether it is a comma between two elements */
  #take(byte: number, at: number): boolean {
    if (!this.#isBegun && byte !== openBracket) throw notJsonAt(this.#offset + at, "an array in [ ]");
    if (this.#isBegun && this.#depth === 0) throw notJsonAt(this.#offset + at, "nothing after the end of the array");
    const last = this.#last;
    this.#last = byte;
    const needsValue = last === comma || last === colon || last === openBracket || last === openBrace;
    if (byte === comma) {
      if (needsValue) throw notJsonAt(this.#offset + at, "a value");
      if (this.#depth === 1) {
        this.#endElement();
        return true;
      }
      if (++this.#values > mostElementValues) throw tooMuch("values", mostElementValues, this.elements);
    } else if (byte === closeBrace || byte === closeBracket) {
      if (last === comma) throw notJsonAt(this.#offset + at, "a key or a value");
      this.#depth--;
    } else if (byte !== colon) {
      if (needsValue && this.#depth < 4) this.#begin(byte, last, at);
      if (byte === quote) {
        this.#isString = true;
      } else if (byte === openBrace || byte === openBracket) {
        this.#isBegun = true;
        if (++this.#depth > deepestElement) {
          throw tooMuch("arrays and objects inside each other", deepestElement, this.elements);
        }
      } else if (isOfNoNumber(byte, last)) {
        throw notJsonAt(this.#offset + at, "true, false, null or a number");
      }
    }
    return false;
  }

  /** A key or a value begins with `byte`, after `last`. */
  #begin(byte: number, last: number, at: number): void {
    if (this.#depth === 1) {
      this.#isObject = byte === openBrace;
      if (!this.#isObject) this.#tell(undefined);
    } else if (!this.#isObject) {
      return;
    } else if (this.#depth === 2 && last === colon) {
      this.#beginValue(byte, at);
    } else if (this.#depth === 2) {
      this.#beginText("key", at);
    } else if (this.#depth === 3 && this.#field === groupNamesField && byte !== quote) {
      this.#wrong |= 1 << groupNamesField;
    }
  }

  #beginValue(byte: number, at: number): void {
    const field = this.#field;
    if (field < 0) return;
    if (byte !== smallN && byte !== (field === groupNamesField ? openBracket : quote)) this.#wrong |= 1 << field;
    if (field === typeField && byte === quote) this.#beginText("type", at);
  }

  #beginText(text: "key" | "type", at: number): void {
    this.#text = text;
    this.#textAt = at + 1;
    this.#before = nothing;
  }

  #endText(bytes: Buffer, end: number): void {
    const texts = this.#text === "key" ? fieldNames : typeNames;
    const place =
      this.#before.length === 0
        ? placeIn(texts, bytes, this.#textAt, end)
        : placeIn(texts, Buffer.concat([this.#before, bytes.subarray(0, end)]), 0, this.#before.length + end);
    if (this.#text === "key") this.#endKey(place);
    else this.#type = place;
    this.#text = undefined;
    this.#before = nothing;
  }

  #endKey(field: number): void {
    this.#field = field;
    if (field < 0) return;
    const bit = 1 << field;
    if ((this.#seen & bit) !== 0)
      this.repeated ??= { index: this.elements, field: principalFields[field] as PrincipalField };
    this.#seen |= bit;
  }

  #endElement(): void {
    const isGroup = this.#type === 0;
    if (this.#wrong !== 0) {
      const fields = principalFields.filter(
        (field, place) => (this.#wrong & (1 << place)) !== 0 && !(isGroup && userFields.has(field)),
      );
      if (fields.length > 0) this.#tell(fields);
    }
    this.elements++;
    this.#values = 0;
    this.#seen = 0;
    this.#wrong = 0;
    this.#field = -1;
    this.#type = -1;
  }

  #tell(fields: readonly PrincipalField[] | undefined): void {
    if (this.wrong.length < mostWrong) this.wrong.push({ index: this.elements, fields });
  }
}

const [tab, lineFeed, carriageReturn, space, quote, comma, colon] = [0x09, 0x0a, 0x0d, 0x20, 0x22, 0x2c, 0x3a];
const [openBracket, backslash, closeBracket, openBrace, closeBrace] = [0x5b, 0x5c, 0x5d, 0x7b, 0x7d];
const [letterI, letterN, smallA, smallI, smallN] = [0x49, 0x4e, 0x61, 0x69, 0x6e];

/** Where the first quote or backslash is from `from` on; the length when there is none. By itself it is compiled well. */
function skipText(bytes: Buffer, from: number): number {
  let at = from;
  while (at < bytes.length && bytes[at] !== quote && bytes[at] !== backslash) at++;
  return at;
}

/** The place of a text among others; -1: it is none of them. The text is written as in JSON, without its quotes. */
function placeIn(texts: readonly Buffer[], bytes: Buffer, from: number, to: number): number {
  for (let place = 0; place < texts.length; place++) if (isAt(bytes, from, to, texts[place] as Buffer)) return place;
  if (to - from > longestText || !bytes.subarray(from, to).includes(backslash)) return -1;
  try {
    const text = Buffer.from(JSON.parse(`"${bytes.toString("utf8", from, to)}"`) as string);
    return texts.findIndex((each) => each.equals(text));
  } catch {
    return -1;
  }
}

/** Texts are short: a call of the library takes longer than comparing them. */
function isAt(bytes: Buffer, from: number, to: number, text: Buffer): boolean {
  if (to - from !== text.length) return false;
  for (let at = 0; at < text.length; at++) if (bytes[from + at] !== text[at]) return false;
  return true;
}

/**
 * Whether a letter is part of `NaN` or `Infinity`, in any case. `true`, `false` and `null` have no `i`, no `N`, and no
 * `a` after an `n`.
 */
function isOfNoNumber(byte: number, last: number): boolean {
  if (byte === letterN || byte === letterI || byte === smallI) return true;
  return (last === smallN || last === letterN) && (byte | 0x20) === smallA;
}

function tooMuch(what: string, most: number, element: number): InputError {
  return new InputError(`principals[${element}]: has more than ${formatNumber(most)} ${what}`);
}

function notJsonAt(byte: number, expected: string): InputError {
  return new InputError(`principals: not valid JSON at byte ${byte}: expected ${expected}`);
}

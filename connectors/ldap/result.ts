import { type Cursor, enter, readBytes, readInteger, readText, skip, tags } from "./ber.ts";

/** The end of an operation, as the server tells it (RFC 4511, 4.1.9). */
export interface Result {
  readonly code: number;
  /** How much of the name exists, where a name does not. */
  readonly matchedDn: string;
  /** What the server adds for a person. */
  readonly message: string;
  /** Where else to ask, when `code` is 10. */
  readonly referrals: readonly string[];
  /** Of an extended operation. */
  readonly name?: string;
  readonly value?: Buffer;
  /** The cookie of a page (RFC 2696), empty after the last; absent when the server did not page. */
  readonly cookie?: Buffer;
}

const pagedResults = "1.2.840.113556.1.4.319";

/** @param cursor at the operation of the message */
export function readResult(cursor: Cursor): Result {
  const end = enter(cursor, cursor.bytes[cursor.at] ?? 0);
  const code = readInteger(cursor, tags.enumerated);
  const matchedDn = readText(cursor);
  const message = readText(cursor);
  let referrals: string[] = [];
  const extension: { name?: string; value?: Buffer } = {};
  while (cursor.at < end) {
    const tag = cursor.bytes[cursor.at];
    if (tag === tags.referral) referrals = readTexts(cursor, tags.referral);
    else if (tag === tags.responseName) extension.name = readText(cursor, tag);
    else if (tag === tags.responseValue) extension.value = readBytes(cursor, tag);
    else skip(cursor);
  }
  const cookie = readCookie(cursor);
  return { code, matchedDn, message, referrals, ...extension, ...(cookie === undefined ? {} : { cookie }) };
}

/** Texts one after the other within one tag. */
export function readTexts(cursor: Cursor, tag: number): string[] {
  const end = enter(cursor, tag);
  const texts: string[] = [];
  while (cursor.at < end) texts.push(readText(cursor));
  return texts;
}

function readCookie(cursor: Cursor): Buffer | undefined {
  if (cursor.at >= cursor.bytes.length || cursor.bytes[cursor.at] !== tags.controls) return undefined;
  const end = enter(cursor, tags.controls);
  while (cursor.at < end) {
    const controlEnd = enter(cursor, tags.sequence);
    const type = readText(cursor);
    // Between them may stand whether the control is critical.
    while (cursor.at < controlEnd && cursor.bytes[cursor.at] !== tags.octets) skip(cursor);
    if (type === pagedResults && cursor.at < controlEnd) {
      const value: Cursor = { bytes: readBytes(cursor), at: 0 };
      enter(value, tags.sequence);
      skip(value);
      return Buffer.from(readBytes(value));
    }
    cursor.at = controlEnd;
  }
  return undefined;
}

import { InputError } from "#errors.ts";
import type { OpenFile } from "#files/source-file.ts";
import { contentOf } from "#files/source-file.ts";
import type { Encoding } from "./options.ts";
import { at } from "./rows.ts";
import type { Place } from "./rows.ts";

/**
 * The text of a file, in pieces of about 32 KiB, without its byte order mark.
 * @throws {IncompleteReadError} compressed data ends early
 * @throws {InputError} bytes are not in the encoding
 */
export function textOf(file: OpenFile, encoding: Encoding, place: Place, signal: AbortSignal): AsyncGenerator<string> {
  return decoded(
    contentOf(file, () => at(place), signal),
    encoding,
    place,
  );
}

const longestMark = 3;

/**
 * Decodes bytes, without the byte order mark. `place` is the position of the reader when it asks for more text. Before an
 * error, the text up to the wrong bytes is delivered, so that the position in the message is theirs.
 * @throws {InputError} bytes are not in the encoding, or the byte order mark is another encoding's
 */
export async function* decoded(bytes: AsyncIterable<Buffer>, encoding: Encoding, place: Place): AsyncGenerator<string> {
  let decode: Decode | undefined;
  // The incomplete character, or byte order mark, at the end of the bytes so far.
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of bytes) {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    if (decode === undefined) {
      if (rest.length < longestMark) continue;
      [decode, rest] = start(rest, encoding, place);
    }
    const end = decode.completeLength(rest);
    yield* decode.text(rest.subarray(0, end));
    rest = rest.subarray(end);
  }
  if (decode === undefined) [decode, rest] = start(rest, encoding, place);
  yield* decode.text(rest, true);
}

interface Decode {
  /** The number of bytes up to the last complete character. */
  completeLength(bytes: Buffer): number;
  /** Decodes complete characters. @param isEnd nothing follows */
  text(bytes: Buffer, isEnd?: boolean): Generator<string>;
}

/** Chooses the decoder from the first bytes, and removes the byte order mark. */
function start(head: Buffer, configured: Encoding, place: Place): [Decode, Buffer] {
  const [mark, markLength] = markOf(head);
  const encoding = configured === "utf-16" && mark?.startsWith("utf-16") ? mark : configured;
  if (mark !== undefined && mark !== encoding) {
    throw new InputError(`${at(place)}: starts with the byte order mark of ${mark}; set encoding to ${mark}`);
  }
  if (encoding === "utf-16") {
    const message = "has no byte order mark, so its byte order is unknown; set encoding to utf-16le or utf-16be";
    throw new InputError(`${at(place)}: ${message}`);
  }
  const decoder = new TextDecoder(encoding, { fatal: true, ignoreBOM: true });
  return [
    {
      completeLength: (bytes) => completeLength(bytes, encoding),
      *text(bytes, isEnd = false) {
        let text: string;
        try {
          text = decoder.decode(bytes, { stream: !isEnd });
        } catch (error) {
          yield textUpToFault(bytes, encoding);
          const message =
            `the row that starts here holds bytes that are not ${encoding}; set encoding to the file's, such as windows-1252 ` +
            "(Excel in Western Europe) or windows-1250 (in Central Europe), or save the file as UTF-8";
          throw new InputError(`${at(place)}: ${message}`, { cause: error });
        }
        yield text;
      },
    },
    head.subarray(markLength),
  ];
}

function markOf(head: Buffer): [Encoding | undefined, number] {
  if (head[0] === 0xef && head[1] === 0xbb && head[2] === 0xbf) return ["utf-8", 3];
  if (head[0] === 0xff && head[1] === 0xfe) return ["utf-16le", 2];
  if (head[0] === 0xfe && head[1] === 0xff) return ["utf-16be", 2];
  return [undefined, 0];
}

function completeLength(bytes: Buffer, encoding: Encoding): number {
  // The decoder keeps what is incomplete.
  if (!encoding.startsWith("utf-")) return bytes.length;
  if (encoding === "utf-8") {
    // An incomplete character starts within the last three bytes.
    for (let back = 1; back <= Math.min(3, bytes.length); back++) {
      const byte = bytes[bytes.length - back] ?? 0;
      if (byte < 0x80) break;
      if (byte >= 0xc0) return back < (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) ? bytes.length - back : bytes.length;
    }
    return bytes.length;
  }
  const even = bytes.length - (bytes.length % 2);
  const highByte = bytes[encoding === "utf-16le" ? even - 1 : even - 2] ?? 0;
  const isHighSurrogate = even > 0 && highByte >= 0xd8 && highByte <= 0xdb;
  return isHighSurrogate ? even - 2 : even;
}

/** The text up to the first wrong bytes, and one U+FFFD in their place. */
function textUpToFault(bytes: Buffer, encoding: Encoding): string {
  const decoder = new TextDecoder(encoding, { ignoreBOM: true });
  if (!encoding.startsWith("utf-")) {
    // The bytes may begin within a character. In all these encodings, one below "0" is a character of its own.
    const start = bytes.findIndex((byte) => byte < 0x30);
    const [first = "", whole = ""] = [bytes.subarray(0, start), bytes.subarray(start)].map((part) =>
      decoder.decode(part),
    );
    return first.replaceAll("\u{FFFD}", "") + (whole.slice(0, whole.indexOf("\u{FFFD}") + 1) || "\u{FFFD}");
  }
  const loose = decoder.decode(bytes);
  const replacement = encoding === "utf-8" ? [0xef, 0xbf, 0xbd] : encoding === "utf-16le" ? [0xfd, 0xff] : [0xff, 0xfd];
  for (let index = loose.indexOf("\u{FFFD}"); index !== -1; index = loose.indexOf("\u{FFFD}", index + 1)) {
    const offset = encoding === "utf-8" ? Buffer.byteLength(loose.slice(0, index)) : index * 2;
    // The file may hold U+FFFD itself. Every byte up to here was right, so the offset is exact.
    if (replacement.some((byte, i) => bytes[offset + i] !== byte)) return loose.slice(0, index + 1);
  }
  return loose;
}

/** How much of a beginning tells what something is, in bytes. */
export const tellingBytes = 4096;

/** What is no table of text, and what to do with it: the end of a sentence. */
interface Content {
  readonly is: string;
  readonly advice: string;
}

const saveAsCsv = 'open it and save the sheet as "CSV UTF-8", then load that file';

/** First bytes in Latin-1, perhaps a text behind them, and what begins so. No table in UTF-8 does. */
const beginnings: readonly (readonly [bytes: string, content: Content, holds?: RegExp])[] = [
  ["PK\x03\x04", { is: "an Excel workbook (.xlsx)", advice: saveAsCsv }, /\[Content_Types\]\.xml|xl\/|docProps\//],
  [
    "PK\x03\x04",
    { is: "an OpenDocument spreadsheet (.ods)", advice: saveAsCsv },
    /opendocument\.spreadsheet|content\.xml/,
  ],
  ["PK\x03\x04", { is: "a zip archive", advice: "unzip it, then load the files in it" }],
  ["PK\x05\x06", { is: "a zip archive", advice: "unzip it, then load the files in it" }],
  ["\xd0\xcf\x11\xe0", { is: "an Excel workbook (.xls), or another Office document", advice: saveAsCsv }],
  // Without the envelope of other Office documents, as programs write it that are not Excel.
  ["\x09", { is: "an Excel workbook (.xls)", advice: saveAsCsv }, /^\t\S\S\0/],
  ["\x03", { is: "a dBase table (.dbf)", advice: saveAsCsv }, /^\p{Cc}[^]\p{Cc}\p{Cc}/u],
  ["{\\rtf", { is: "a document (RTF)", advice: "ask for the table as CSV" }],
  ["", { is: "a tar archive", advice: "unpack it, for instance: tar -x" }, /^[^]{257}ustar/],
  ["%PDF", { is: "a PDF document", advice: "ask for the table as CSV" }],
  ["\x1f\x8b", { is: "packed with gzip", advice: "unpack it, for instance: gunzip -c" }],
  ["\x28\xb5\x2f\xfd", { is: "packed with zstd", advice: "unpack it, for instance: zstd -dc" }],
  ["BZh", { is: "packed with bzip2", advice: "unpack it, for instance: bunzip2 -c" }, /^BZh[1-9]1AY/],
  ["\xfd7zXZ", { is: "packed with xz", advice: "unpack it, for instance: xz -dc" }],
  ["7z\xbc\xaf", { is: "a 7-Zip archive", advice: "unpack it, then load the files in it" }],
  ["Rar!", { is: "a RAR archive", advice: "unpack it, then load the files in it" }],
  ["PAR1", { is: "a Parquet file", advice: "write it as CSV" }],
  ["SQLite format 3\0", { is: "a SQLite database", advice: "write its table as CSV" }],
  ["\xff\xfe\0\0", { is: "UTF-32 text", advice: "convert it, for instance: iconv -f utf-32 -t utf-8" }],
  ["\0\0\xfe\xff", { is: "UTF-32 text", advice: "convert it, for instance: iconv -f utf-32 -t utf-8" }],
  ["\xff\xfe", { is: "UTF-16 text", advice: "convert it, for instance: iconv -f utf-16 -t utf-8" }],
  ["\xfe\xff", { is: "UTF-16 text", advice: "convert it, for instance: iconv -f utf-16 -t utf-8" }],
];

/** Documents in text. Something before them is white space or a byte order mark. */
const documents: readonly (readonly [text: RegExp, content: Content])[] = [
  [
    /^<(?:!doctype\s+html|html|head|body|table|meta|script)\b/i,
    { is: "a web page (HTML)", advice: "look at it: it may be a sign-in page instead of the file" },
  ],
  [/^<(?:\?xml|!--|!doctype)/i, { is: "XML", advice: "write its table as CSV" }],
];

const json: Content = { is: "JSON", advice: "write its table as CSV" };

/**
 * What these first bytes belong to, where that is no table of text in UTF-8; undefined: nothing says so.
 * @param mayBeJson rows may begin as JSON does
 */
export function foreignContent(start: Buffer, mayBeJson = false): Content | undefined {
  const bytes = start.toString("latin1", 0, tellingBytes);
  const found = beginnings.find(([magic, , holds]) => bytes.startsWith(magic) && (holds?.test(bytes) ?? true))?.[1];
  if (found !== undefined) return found;
  const order = wideOrder(start.subarray(0, tellingBytes));
  if (order !== undefined)
    return { is: "UTF-16 text", advice: `convert it, for instance: iconv -f utf-16${order} -t utf-8` };
  const text = bytes.replace(/^(?:\xef\xbb\xbf)?\s*/, "");
  const document = documents.find(([beginning]) => beginning.test(text))?.[1];
  if (document !== undefined) return document;
  return !mayBeJson && /^(?:\[\s*[[{"]|\{\s*"[^"]*"\s*:)/.test(text) ? json : undefined;
}

/** The order of bytes of UTF-16 that has no mark for it: of most pairs of bytes one is zero, always the same. */
function wideOrder(start: Buffer): "le" | "be" | undefined {
  const pairs = Math.floor(start.length / 2);
  if (pairs < 2) return undefined;
  const zeros = [0, 0];
  for (let at = 0; at < pairs * 2; at += 1) if (start[at] === 0) zeros[at % 2] = (zeros[at % 2] ?? 0) + 1;
  const [even = 0, odd = 0] = zeros;
  if (odd * 2 > pairs && even === 0) return "le";
  return even * 2 > pairs && odd === 0 ? "be" : undefined;
}

/** In bytes: no text ends in so many zeros, whatever its encoding. */
export const zeroTail = 4;

/**
 * Whether the end of a file was reserved and never written: many programs that copy a file give it its final size first.
 * @param tail the last `zeroTail` bytes of a text
 */
export function isUnwritten(tail: Buffer): boolean {
  return tail.length === zeroTail && tail.readUInt32LE() === 0;
}

/** The message about such a file. */
export function unwritten(name: string): string {
  return `${name} ends in zero bytes: a copy of it has not come to its end; wait until it has, or copy it again`;
}

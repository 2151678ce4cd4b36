import { basename, dirname, join, posix } from "node:path";
import { IncompleteReadError, InputError } from "#errors.ts";
import { foreignContent, tellingBytes } from "#files/content.ts";
import type { OpenFile } from "#files/source-file.ts";
import { nfc, quote } from "#text.ts";
import { formatOf, unescaped } from "./cell-values.ts";
import type { NumberFormat } from "./cell-values.ts";
import { XmlReader } from "./xml.ts";
import type { XmlHandlers } from "./xml.ts";
import { damaged, Zip } from "./zip.ts";
import { exists } from "#files/disk.ts";

/** An Excel workbook that is open for one read. */
export interface Workbook {
  readonly file: OpenFile;
  readonly zip: Zip;
  /** Days count from 1904. */
  readonly is1904: boolean;
  readonly sheets: readonly SheetPart[];
  /** By the number of a cell's style. */
  readonly formats: readonly NumberFormat[];
  readonly strings: Strings;
}

/**
 * Opens a workbook, if the file is one by its content.
 * @returns undefined for text
 * @throws {IncompleteReadError} it is cut off, or somebody has it open
 * @throws {InputError} it is another kind of document, protected by a password, or damaged
 */
export async function openWorkbook(file: OpenFile, signal: AbortSignal): Promise<Workbook | undefined> {
  const head = await file.head(tellingBytes);
  const start = head.toString("latin1", 0, 4);
  if (start === "\xd0\xcf\x11\xe0") throw await olderDocument(file);
  if (start !== "PK\x03\x04") return undefined;
  await assertNobodyWrites(file);
  // Checks its checksum, if there is one; the archive is read from its end.
  for await (const _ of file.bytes(signal)) signal.throwIfAborted();
  const zip = await Zip.open(file);
  if (!zip.has("[Content_Types].xml") || !zip.has("_rels/.rels")) {
    const content = foreignContent(head);
    throw new InputError(
      `${file.name} is ${content?.is ?? "a zip archive"}, not CSV; ${content?.advice ?? "unzip it"}`,
    );
  }
  return new PartsReader(file, zip, signal).workbook();
}

/** The sheet with a name. @throws {InputError} there is none */
export function sheetNamed({ file, sheets }: Workbook, name: string): SheetPart {
  const wanted = comparable(name);
  const found = sheets.find((sheet) => comparable(sheet.name) === wanted);
  if (found !== undefined) return found;
  throw new InputError(`${file.name} has no sheet ${quote(name)}; it has ${namesOf(sheets)}`);
}

/** A sheet of a workbook. */
export interface SheetPart {
  readonly name: string;
  readonly isHidden: boolean;
  /** The file in the archive. */
  readonly part: string;
}

export function namesOf(sheets: readonly SheetPart[]): string {
  return sheets.map(({ name }) => quote(name)).join(", ");
}

function comparable(name: string): string {
  return nfc(name.trim()).toLowerCase();
}

/** In bytes, all texts of a workbook. */
const longestStrings = 256 * 2 ** 20;

/** The texts that cells refer to by number: as bytes, since there may be millions. */
export class Strings {
  #bytes = Buffer.allocUnsafe(64 * 1024);
  #end = 0;
  readonly #ends: number[] = [];

  /** @throws {InputError} there are too many */
  add(text: string, file: OpenFile): void {
    const length = Buffer.byteLength(text);
    if (this.#end + length > this.#bytes.length) {
      if (this.#end + length > longestStrings)
        throw new InputError(`${file.name} has more than 256 MiB of texts; save the sheet as CSV`);
      const larger = Buffer.allocUnsafe(Math.max(this.#end + length, this.#bytes.length * 2));
      this.#bytes.copy(larger, 0, 0, this.#end);
      this.#bytes = larger;
    }
    this.#bytes.write(text, this.#end);
    this.#end += length;
    this.#ends.push(this.#end);
  }

  at(index: number): string | undefined {
    const end = this.#ends[index];
    return end === undefined ? undefined : this.#bytes.toString("utf8", this.#ends[index - 1] ?? 0, end);
  }
}

/** Reads the small parts of a workbook. */
class PartsReader {
  readonly #file: OpenFile;
  readonly #zip: Zip;
  readonly #signal: AbortSignal;

  constructor(file: OpenFile, zip: Zip, signal: AbortSignal) {
    this.#file = file;
    this.#zip = zip;
    this.#signal = signal;
  }

  async workbook(): Promise<Workbook> {
    const [main] = await this.#related("_rels/.rels", "", /\/officeDocument$/);
    if (main === undefined) throw damaged(this.#file, "nothing in it says where its sheets are");
    if (main.target.endsWith(".bin"))
      throw new InputError(`${this.#file.name} is a binary Excel workbook (.xlsb); save it as .xlsx`);
    const folder = posix.dirname(main.target);
    const parts = await this.#related(`${folder}/_rels/${posix.basename(main.target)}.rels`, folder, /./);
    const { is1904, sheets } = await this.#sheets(main.target, parts);
    const partOf = (type: string) => parts.find((part) => part.type.endsWith(`/${type}`))?.target;
    return {
      file: this.#file,
      zip: this.#zip,
      is1904,
      sheets,
      formats: await this.#formats(partOf("styles")),
      strings: await this.#strings(partOf("sharedStrings")),
    };
  }

  async #read(part: string, handlers: XmlHandlers): Promise<void> {
    const reader = await XmlReader.open(this.#file, part, handlers);
    for await (const bytes of this.#zip.content(part, this.#signal)) reader.write(bytes);
    reader.end();
  }

  async #related(part: string, folder: string, wanted: RegExp) {
    const found: { id: string; type: string; target: string }[] = [];
    await this.#read(part, {
      open: (name, attribute) => {
        const [type = "", target = ""] = [attribute("Type"), attribute("Target")];
        if (name !== "Relationship" || !wanted.test(type)) return;
        found.push({
          id: attribute("Id") ?? "",
          type,
          target: target.startsWith("/") ? target.slice(1) : posix.join(folder, target),
        });
      },
    });
    return found;
  }

  async #sheets(part: string, parts: readonly { id: string; type: string; target: string }[]) {
    const sheets: SheetPart[] = [];
    let is1904 = false;
    await this.#read(part, {
      open: (name, attribute) => {
        if (name === "workbookPr") is1904 = /^(?:1|true)$/.test(attribute("date1904") ?? "");
        if (name !== "sheet") return;
        const target = parts.find(({ id, type }) => id === attribute("id") && type.endsWith("/worksheet"))?.target;
        const isHidden = (attribute("state") ?? "visible") !== "visible";
        // Charts are sheets too.
        if (target !== undefined) sheets.push({ name: unescaped(attribute("name") ?? ""), isHidden, part: target });
      },
    });
    if (sheets.length === 0) throw damaged(this.#file, "it has no sheet with cells");
    return { is1904, sheets };
  }

  async #formats(part: string | undefined): Promise<readonly NumberFormat[]> {
    const formats: NumberFormat[] = [];
    if (part === undefined) return formats;
    const codes = new Map<number, string>();
    let isStyle = false;
    await this.#read(part, {
      open: (name, attribute) => {
        const id = Number(attribute("numFmtId") ?? 0);
        if (name === "numFmt") codes.set(id, attribute("formatCode") ?? "");
        else if (name === "cellXfs") isStyle = true;
        else if (name === "xf" && isStyle) formats.push(formatOf(id, codes.get(id)));
      },
      close: (name) => {
        if (name === "cellXfs") isStyle = false;
      },
    });
    return formats;
  }

  async #strings(part: string | undefined): Promise<Strings> {
    const strings = new Strings();
    if (part === undefined) return strings;
    const texts = new TextCollector();
    await this.#read(part, {
      open: (name) => texts.open(name),
      text: (text) => texts.text(text),
      close: (name) => {
        texts.close(name);
        if (name === "si") strings.add(texts.take(), this.#file);
      },
    });
    return strings;
  }
}

/** The text of `si` or `is`: one `t`, or several of differing looks; without how it is pronounced (`rPh`). */
export class TextCollector {
  #text = "";
  #isText = false;
  #isPronunciation = false;

  open(name: string): void {
    if (name === "rPh") this.#isPronunciation = true;
    else if (name === "t") this.#isText = !this.#isPronunciation;
  }

  text(text: string): void {
    if (this.#isText) this.#text += text;
  }

  close(name: string): void {
    if (name === "t") this.#isText = false;
    else if (name === "rPh") this.#isPronunciation = false;
  }

  take(): string {
    const text = unescaped(this.#text);
    this.#text = "";
    return text;
  }
}

/** Office and LibreOffice put a file beside one that somebody has open. */
async function assertNobodyWrites({ name, path }: OpenFile): Promise<void> {
  for (const lock of [`~$${basename(path)}`, `.~lock.${basename(path)}#`]) {
    if (await exists(join(dirname(path), lock)))
      throw new IncompleteReadError(
        `${name}: it is open in Excel or LibreOffice, as ${lock} beside it says; it is read again once it is closed (if nobody has it open, remove ${lock})`,
        { transient: true },
      );
  }
}

/** The old format of Office documents also holds encrypted ones. */
async function olderDocument(file: OpenFile): Promise<InputError> {
  const name = Buffer.from("EncryptedPackage", "utf16le");
  const isEncrypted =
    (await file.read(0, 2 ** 20)).includes(name) ||
    (await file.read(Math.max(0, file.size - 2 ** 20), 2 ** 20)).includes(name);
  return new InputError(
    isEncrypted
      ? `${file.name} is protected by a password; save it without one (File, Info, Protect Workbook), in a folder that only this program may read`
      : `${file.name} is an Excel workbook of before 2007 (.xls), or another Office document; save it as .xlsx`,
  );
}

import { crc32, deflateRawSync } from "node:zlib";

/** A cell: a text, a number, a truth, or `<c>` as it is to stand in the file (`REF` becomes its place). */
export type XlsxCell = string | number | boolean | undefined | { readonly xml: string };

export interface XlsxSheet {
  readonly name: string;
  readonly state?: "hidden" | undefined;
  readonly rows: readonly (readonly XlsxCell[])[];
  /** Numbers of rows, from 1. */
  readonly hiddenRows?: readonly number[] | undefined;
  /** After the rows: `<autoFilter ref="A1:C3"/>`. */
  readonly after?: string | undefined;
}

export interface XlsxOptions {
  /** Formats beyond those that Excel knows by number; the styles of cells are 0 and then one for each, and then date 14. */
  readonly formats?: readonly string[] | undefined;
  readonly is1904?: boolean | undefined;
  /** Programs differ in the prefix of the elements. */
  readonly prefix?: string | undefined;
  /** Further files in the archive. */
  readonly more?: Readonly<Record<string, string | Buffer>> | undefined;
}

const main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
const relations = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
/** What Excel writes since 2013 of its own versions: an element that is called like another. */
const extension = "http://schemas.microsoft.com/office/spreadsheetml/2010/11/main";
const declaration = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n';

/** A workbook as Excel writes it, texts in a table of their own. */
export function xlsx(sheets: readonly XlsxSheet[], options: XlsxOptions = {}): Buffer {
  const { formats = [], is1904 = false, prefix = "", more = {} } = options;
  const strings = new Map<string, number>();
  const p = prefix === "" ? "" : `${prefix}:`;
  const root = (name: string, content: string) =>
    `${declaration}<${p}${name} xmlns${prefix === "" ? "" : `:${prefix}`}="${main}" xmlns:r="${relations}">${content}</${p}${name}>`;
  const cellOf = (cell: XlsxCell, place: string): string => {
    if (cell === undefined) return "";
    if (typeof cell === "object") return cell.xml.replaceAll("REF", place).replaceAll(/<(\/?)(?=[a-z])/g, `<$1${p}`);
    if (typeof cell === "number") return `<${p}c r="${place}"><${p}v>${cell}</${p}v></${p}c>`;
    if (typeof cell === "boolean") return `<${p}c r="${place}" t="b"><${p}v>${cell ? 1 : 0}</${p}v></${p}c>`;
    const number = strings.get(cell) ?? strings.size;
    strings.set(cell, number);
    return `<${p}c r="${place}" t="s"><${p}v>${number}</${p}v></${p}c>`;
  };
  const parts: Record<string, string | Buffer> = {
    "[Content_Types].xml": `${declaration}<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>`,
    "_rels/.rels": relationships([["officeDocument", "xl/workbook.xml"]]),
    "xl/workbook.xml": root(
      "workbook",
      `<${p}workbookPr date1904="${is1904 ? 1 : 0}"/><${p}sheets>${sheets
        .map(
          ({ name, state }, index) =>
            `<${p}sheet name="${escaped(name)}" sheetId="${index + 1}"${state === undefined ? "" : ` state="${state}"`} r:id="rId${index + 1}"/>`,
        )
        .join("")}</${p}sheets>` +
        `<${p}extLst><${p}ext uri="{140A7094-0E35-4892-8432-C4D2E57EDEB5}" xmlns:x15="${extension}"><x15:workbookPr chartTrackingRefBase="1"/></${p}ext></${p}extLst>`,
    ),
    "xl/_rels/workbook.xml.rels": relationships([
      ...sheets.map((_, index) => ["worksheet", `worksheets/sheet${index + 1}.xml`] as const),
      ["styles", "/xl/styles.xml"],
      ["sharedStrings", "sharedStrings.xml"],
    ]),
    "xl/styles.xml": root(
      "styleSheet",
      `<${p}numFmts>${formats.map((code, index) => `<${p}numFmt numFmtId="${164 + index}" formatCode="${escaped(code)}"/>`).join("")}</${p}numFmts>` +
        `<${p}cellStyleXfs><${p}xf numFmtId="14"/></${p}cellStyleXfs><${p}cellXfs>${[0, ...formats.map((_, index) => 164 + index), 14].map((id) => `<${p}xf numFmtId="${id}"/>`).join("")}</${p}cellXfs>`,
    ),
  };
  for (const [index, { rows, hiddenRows = [], after = "" }] of sheets.entries()) {
    const data = rows.map((row, at) => {
      const hidden = hiddenRows.includes(at + 1) ? ' hidden="1"' : "";
      return `<${p}row r="${at + 1}"${hidden}>${row.map((cell, column) => cellOf(cell, `${columnOf(column)}${at + 1}`)).join("")}</${p}row>`;
    });
    const end = after.replaceAll(/<(\/?)(?=[a-z])/g, `<$1${p}`);
    parts[`xl/worksheets/sheet${index + 1}.xml`] = root(
      "worksheet",
      `<${p}sheetData>${data.join("")}</${p}sheetData>${end}`,
    );
  }
  const texts = [...strings.keys()].map(
    (text) => `<${p}si><${p}t xml:space="preserve">${escaped(text)}</${p}t></${p}si>`,
  );
  parts["xl/sharedStrings.xml"] = root("sst", texts.join(""));
  return zip({ ...parts, ...more });
}

function relationships(all: readonly (readonly [type: string, target: string])[]): string {
  const list = all.map(
    ([type, target], index) => `<Relationship Id="rId${index + 1}" Type="${relations}/${type}" Target="${target}"/>`,
  );
  return `${declaration}<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">${list.join("")}</Relationships>`;
}

function columnOf(index: number): string {
  return (index < 26 ? "" : columnOf(Math.floor(index / 26) - 1)) + String.fromCharCode(65 + (index % 26));
}

function escaped(text: string): string {
  return text.replaceAll(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** A zip archive. What is a buffer is stored as it is; texts are packed. */
export function zip(files: Readonly<Record<string, string | Buffer>>): Buffer {
  const [parts, list]: [Buffer[], Buffer[]] = [[], []];
  let offset = 0;
  for (const [name, content] of Object.entries(files)) {
    const bytes = Buffer.from(content);
    const packed = typeof content === "string" ? deflateRawSync(bytes) : bytes;
    const common = Buffer.alloc(26);
    common.writeUInt16LE(20, 0);
    common.writeUInt16LE(0x800, 2);
    common.writeUInt16LE(typeof content === "string" ? 8 : 0, 4);
    common.writeUInt32LE(crc32(bytes), 10);
    common.writeUInt32LE(packed.length, 14);
    common.writeUInt32LE(bytes.length, 18);
    common.writeUInt16LE(Buffer.byteLength(name), 22);
    const local = Buffer.concat([Buffer.from("PK\x03\x04"), common, Buffer.from(name), packed]);
    const rest = Buffer.alloc(14);
    rest.writeUInt32LE(offset, 10);
    list.push(Buffer.concat([Buffer.from("PK\x01\x02\x14\x00"), common, rest, Buffer.from(name)]));
    parts.push(local);
    offset += local.length;
  }
  const directory = Buffer.concat(list);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(list.length, 4);
  end.writeUInt16LE(list.length, 6);
  end.writeUInt32LE(directory.length, 8);
  end.writeUInt32LE(offset, 12);
  return Buffer.concat([...parts, directory, Buffer.from("PK\x05\x06"), end]);
}

/** The same archive with its sizes and places where ZIP64 has them, as Java's streaming writers make it. */
export function withZip64(archive: Buffer): Buffer {
  const end = archive.length - 22;
  const start = archive.readUInt32LE(end + 16);
  const list: Buffer[] = [];
  for (let at = start; at < end;) {
    const next = at + 46 + archive.readUInt16LE(at + 28);
    const entry = Buffer.from(archive.subarray(at, next));
    const extra = Buffer.alloc(28);
    extra.writeUInt16LE(1, 0);
    extra.writeUInt16LE(24, 2);
    for (const [index, field] of [24, 20, 42].entries()) {
      extra.writeBigUInt64LE(BigInt(entry.readUInt32LE(field)), 4 + 8 * index);
      entry.writeUInt32LE(0xffffffff, field);
    }
    entry.writeUInt16LE(extra.length, 30);
    list.push(entry, extra);
    at = next;
  }
  const directory = Buffer.concat(list);
  const last = Buffer.from(archive.subarray(end));
  last.writeUInt32LE(directory.length, 12);
  return Buffer.concat([archive.subarray(0, start), directory, last]);
}

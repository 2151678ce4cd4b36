import type { SaxesParser } from "saxes";
import type { OpenFile } from "#files/source-file.ts";
import { damaged } from "./zip.ts";

/** Receives what is in a part of a workbook, but in `extLst`. Names are without their prefix: programs choose it as they like. */
export interface XmlHandlers {
  readonly open: (name: string, attribute: (name: string) => string | undefined) => void;
  readonly text?: ((text: string) => void) | undefined;
  readonly close?: ((name: string) => void) | undefined;
}

/** Reads XML that comes in pieces. */
export class XmlReader {
  readonly #parser: SaxesParser;
  readonly #decoder = new TextDecoder("utf-8", { fatal: true });
  readonly #file: OpenFile;
  readonly #part: string;

  static async open(file: OpenFile, part: string, handlers: XmlHandlers): Promise<XmlReader> {
    // Loaded with the first workbook: most sources have none.
    const { SaxesParser: Parser } = await import("saxes");
    return new XmlReader(new Parser(), file, part, handlers);
  }

  private constructor(parser: SaxesParser, file: OpenFile, part: string, { open, text, close }: XmlHandlers) {
    this.#parser = parser;
    this.#file = file;
    this.#part = part;
    // Additions of later versions, whose elements may be called like ours: Excel writes a second `workbookPr`.
    let extensions = 0;
    this.#parser.on("opentag", ({ name, attributes }) => {
      if (local(name) === "extLst") extensions += 1;
      if (extensions === 0) open(local(name), (wanted) => attributes[wanted] ?? prefixed(attributes, wanted));
    });
    if (text !== undefined) {
      this.#parser.on("text", text);
      this.#parser.on("cdata", text);
    }
    this.#parser.on("closetag", ({ name }) => {
      if (extensions === 0) close?.(local(name));
      if (local(name) === "extLst") extensions -= 1;
    });
    this.#parser.on("doctype", () => {
      throw damaged(file, `${part} has a document type, which no workbook has`);
    });
    this.#parser.on("error", (error) => {
      throw damaged(file, `${part} is not XML (${error.message})`);
    });
  }

  /** @throws {InputError} it is not XML in UTF-8 */
  write(bytes: Buffer): void {
    this.#parser.write(this.#decoded(bytes, true));
  }

  /** @throws {InputError} something was not closed */
  end(): void {
    this.#parser.write(this.#decoded(Buffer.alloc(0), false));
    this.#parser.close();
  }

  #decoded(bytes: Buffer, stream: boolean): string {
    try {
      return this.#decoder.decode(bytes, { stream });
    } catch {
      throw damaged(this.#file, `${this.#part} is not UTF-8`);
    }
  }
}

function local(name: string): string {
  return name.slice(name.indexOf(":") + 1);
}

function prefixed(attributes: Readonly<Record<string, string>>, wanted: string): string | undefined {
  const found = Object.keys(attributes).find((name) => name.endsWith(`:${wanted}`));
  return found === undefined ? undefined : attributes[found];
}

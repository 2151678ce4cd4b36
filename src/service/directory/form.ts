import type { Encoding } from "./encoding.ts";
import { decode } from "./encoding.ts";

/** Where the bytes of one form field go. */
export interface FieldSink {
  /** The next bytes of the value, as they stand in the body. They are the sink's to keep and to change. */
  write(bytes: Buffer): void;
}

/** What the fields of a form go into. */
export interface FormFields {
  /** The next field, and how its value is encoded: where it goes, if anywhere. */
  open(name: string, encoding: Encoding): FieldSink | undefined;
  /** Resolves when there is room for more. */
  room(): Promise<void>;
}

/** Takes an `application/x-www-form-urlencoded` body apart as it arrives. */
export interface FormSplitter {
  /** The next bytes of the body. The caller must not use them any more. */
  write(bytes: Buffer): void;
  /** The body has ended. */
  end(): void;
}

const ampersand = 0x26;
const equals = 0x3d;

/** A longer field name is cut: no field that anybody asks for has one. In bytes, encoded. */
const longestName = 256;

/**
 * Takes a form apart as `URLSearchParams` does, except that a value is handed on in pieces, and encoded as it is.
 * @param open is called with the name of each field, in order, and says where its value goes; undefined: nowhere
 */
export function createFormSplitter(open: (name: string) => FieldSink | undefined): FormSplitter {
  /** Undefined while a name is read. */
  let value: { readonly sink: FieldSink | undefined } | undefined;
  let name: Buffer[] = [];
  let nameLength = 0;

  function keep(bytes: Buffer): void {
    if (bytes.length === 0) return;
    if (value !== undefined) {
      value.sink?.write(bytes);
    } else if (nameLength <= longestName) {
      name.push(bytes);
      nameLength += bytes.length;
    }
  }

  function openValue(): void {
    value = { sink: open(decode(Buffer.concat(name), "urlencoded").toString("utf8")) };
    name = [];
    nameLength = 0;
  }

  function endField(): void {
    if (value === undefined && nameLength > 0) openValue();
    value = undefined;
  }

  /** Reads on in one field. @returns where it or its name has ended, behind the byte that ends it */
  function part(bytes: Buffer, from: number): number {
    const found = bytes.indexOf(ampersand, from);
    const end = found < 0 ? bytes.length : found;
    const nameEnd = value === undefined ? bytes.indexOf(equals, from) : -1;
    if (nameEnd >= 0 && nameEnd < end) {
      keep(bytes.subarray(from, nameEnd));
      openValue();
      return nameEnd + 1;
    }
    keep(bytes.subarray(from, end));
    if (found >= 0) endField();
    return end + 1;
  }

  return {
    write: (bytes) => {
      for (let at = 0; at < bytes.length;) at = part(bytes, at);
    },
    end: endField,
  };
}

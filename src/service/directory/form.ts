/** Where the decoded bytes of one form field go. */
export interface FieldSink {
  /** The next bytes. They are the sink's to keep and to change. */
  write(bytes: Buffer): void;
}

/** What the fields of a form go into. */
export interface FormFields {
  /** The next field: where its bytes go, if anywhere. */
  open(name: string): FieldSink | undefined;
  /** Resolves when there is room for more. */
  room(): Promise<void>;
}

/** Decodes `application/x-www-form-urlencoded` as it arrives. */
export interface FormDecoder {
  /** The next bytes of the body. They are decoded in place: the caller must not use them any more. */
  write(bytes: Buffer): void;
  /** The body has ended. */
  end(): void;
}

const percent = 0x25;
const ampersand = 0x26;
const plus = 0x2b;
const equals = 0x3d;
const space = 0x20;

/** A longer field name is cut: no field that anybody asks for has one. */
const longestName = 256;

/** The byte that two hexadecimal digits stand for, by the two of them; -1 for every other pair of bytes. */
const escapes = new Int16Array(65_536).fill(-1);
for (let byte = 0; byte < 256; byte++) {
  const [high, low] = byte.toString(16).padStart(2, "0") as unknown as [string, string];
  for (const first of [high, high.toUpperCase()]) {
    for (const second of [low, low.toUpperCase()]) {
      escapes[(first.charCodeAt(0) << 8) | second.charCodeAt(0)] = byte;
    }
  }
}

/**
 * A decoder that reads a form as `URLSearchParams` does (a `+` is a space, what is not an escape stands for itself),
 * except that a value is handed on in pieces and as bytes.
 * @param open is called with the name of each field, in order, and says where its value goes; undefined: nowhere
 */
export function createFormDecoder(open: (name: string) => FieldSink | undefined): FormDecoder {
  /** Undefined while a name is read. */
  let value: { readonly sink: FieldSink | undefined } | undefined;
  let name: Buffer[] = [];
  let nameLength = 0;
  /** The start of an escape at the end of the last bytes: `%`, or `%` and a digit. */
  let rest: Buffer | undefined;

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
    value = { sink: open(Buffer.concat(name).toString("utf8")) };
    name = [];
    nameLength = 0;
  }

  function endField(): void {
    if (value === undefined && nameLength > 0) openValue();
    value = undefined;
  }

  /** @param isLast what may be the start of an escape is none */
  function decode(bytes: Buffer, isLast: boolean): void {
    const end = isLast ? bytes.length : bytes.length - escapeStart(bytes);
    rest = end === bytes.length ? undefined : Buffer.from(bytes.subarray(end));
    const cursor = { from: 0, to: 0 };
    while (cursor.from < end) {
      const start = cursor.from;
      cursor.to = start;
      const stop = unescape(bytes, cursor, end, value === undefined);
      keep(bytes.subarray(start, cursor.to));
      if (stop === equals) openValue();
      if (stop === ampersand) endField();
    }
  }

  return {
    write: (bytes) => {
      let at = 0;
      while (rest !== undefined && at < bytes.length) {
        decode(Buffer.concat([rest, bytes.subarray(at, at + 1)]), false);
        at++;
      }
      if (at < bytes.length) decode(bytes.subarray(at), false);
    },
    end: () => {
      if (rest !== undefined) decode(rest, true);
      endField();
    },
  };
}

/**
 * Decodes in place from `cursor.from` up to `end`, or to the `&` that ends the field, or to the `=` that ends a name.
 * Moves the cursor: `from` behind what was read, `to` behind what was written.
 * @returns the byte that ended it, 0 at the end
 */
function unescape(bytes: Buffer, cursor: { from: number; to: number }, end: number, inName: boolean): number {
  let { from, to } = cursor;
  let stop = 0;
  while (from < end) {
    let byte = bytes[from++] as number;
    if (byte === percent) {
      // Behind the end there may be nothing: then this is no escape.
      const escape =
        from + 1 < end ? (escapes[((bytes[from] as number) << 8) | (bytes[from + 1] as number)] as number) : -1;
      if (escape >= 0) {
        byte = escape;
        from += 2;
      }
    } else if (byte === plus) {
      byte = space;
    } else if (byte === ampersand || (byte === equals && inName)) {
      stop = byte;
      break;
    }
    bytes[to++] = byte;
  }
  cursor.from = from;
  cursor.to = to;
  return stop;
}

/** How many bytes at the end may become an escape once more bytes are there. */
function escapeStart(bytes: Buffer): number {
  const { length } = bytes;
  if (bytes[length - 1] === percent) return 1;
  return bytes[length - 2] === percent ? 2 : 0;
}

import { compareBytes, fieldOf, fields, groupNames, mayBeSecret } from "./fields.ts";
import type { ArrayObserver } from "./array-scanner.ts";
import { readOrdinary } from "./ordinary.ts";
import type { Seen } from "./ordinary.ts";

/** What was seen of a list as it went by: what its reader may rely on. */
export interface ListTraits {
  /**
   * Every element is an object, and what it gives for the fields of a principal is null or has the type of the
   * specification (2.7): the fields can be read as strings at once.
   */
  readonly plain: boolean;
  /** Every `groupNames` is sorted by code point and names no group twice. */
  readonly ordered: boolean;
  /** No element gives a password, or a field that may hold another secret. */
  readonly open: boolean;
}

/** Watches a list as it goes by. */
export interface ListObserver extends ArrayObserver {
  /** What holds so far. */
  traits(): ListTraits;
  /** Elements have gone by that somebody else has looked at. */
  skip(count: number): void;
  /** The first field of a principal that an element gives twice, as `principals[<index from 0>].<field>`. */
  readonly duplicate: string | undefined;
}

const quote = 0x22;
const openArray = 0x5b;
const openObject = 0x7b;
/** The first byte of `null`. */
const letterN = 0x6e;

export function createListObserver(): ListObserver {
  let plain = true;
  let open = true;
  const seen: Seen = { ordered: true, password: false };
  let duplicate: string | undefined;
  let elements = 0;
  /** The field whose value is next or now, as a place in `fields`; -1 for any other. */
  let field = -1;
  /** The fields that the element has given, a bit each. */
  let given = 0;
  /** The group that the element named last. */
  let bytes: Buffer | undefined;
  let from = 0;
  let to = 0;

  function endKey(key: Buffer, start: number, end: number): void {
    field = fieldOf(key, start, end);
    if (open && (end < 0 || mayBeSecret(key, start, end))) open = false;
    if (field < 0) return;
    const bit = 1 << field;
    if ((given & bit) !== 0) duplicate ??= `principals[${elements - 1}].${fields[field]}`;
    given |= bit;
  }

  return {
    element: (text, start) => {
      const end = readOrdinary(text, start, seen);
      if (end >= 0) elements++;
      return end;
    },
    value: (depth, byte) => {
      if (depth === 1) {
        elements++;
        given = 0;
        field = -1;
        if (byte !== openObject) plain = false;
      } else if (depth === 2 && field >= 0) {
        bytes = undefined;
        if (byte !== (field === groupNames ? openArray : quote) && byte !== letterN) plain = false;
      } else if (depth === 3 && field === groupNames && byte !== quote) {
        plain = false;
      }
    },
    string: (depth, isKey, text, start, end) => {
      if (isKey) {
        if (depth === 2) endKey(text, start, end);
      } else if (depth === 3 && field === groupNames && seen.ordered) {
        seen.ordered = end >= 0 && (bytes === undefined || compareBytes(bytes, from, to, text, start, end) < 0);
        bytes = text;
        from = start;
        to = end;
      }
    },
    traits: () => ({ plain, ordered: seen.ordered, open: open && !seen.password }),
    skip: (count) => {
      elements += count;
    },
    get duplicate() {
      return duplicate;
    },
  };
}

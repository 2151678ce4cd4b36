/** The fields of a principal (specification 2.7). */
export const fields = ["name", "displayName", "description", "mail", "principalTypeEnum", "password", "groupNames"];
export const groupNames = fields.indexOf("groupNames");
export const password = fields.indexOf("password");

/** What principals often have besides, and what is ignored: nothing that anybody would keep to themselves. */
const harmless: ReadonlySet<string> = new Set(["id", "created", "modified", "visibility"]);

const names = fields.map((field) => Buffer.from(field));

/** By the length of a key and its last byte: which field it may be, one above its place in `fields`; 0 for none. */
const candidates = new Uint8Array(32 * 256);
for (const [index, name] of names.entries()) candidates[(name.length << 8) | (name.at(-1) ?? 0)] = index + 1;

/** The field that the bytes of a key name, as a place in `fields`; -1 for none. */
export function fieldOf(key: Buffer, from: number, to: number): number {
  const length = to - from;
  if (length < 1 || length >= 32) return -1;
  const candidate = (candidates[(length << 8) | (key[to - 1] as number)] as number) - 1;
  if (candidate < 0) return -1;
  const name = names[candidate] as Buffer;
  return compareBytes(name, 0, length, key, from, to) === 0 ? candidate : -1;
}

/** Whether the bytes of a key name a field that may hold a secret: every one that is not known to hold none. */
export function mayBeSecret(key: Buffer, from: number, to: number): boolean {
  const field = fieldOf(key, from, to);
  return field < 0 ? !harmless.has(key.toString("utf8", from, to)) : field === password;
}

/** Orders by bytes, which is by code point in UTF-8. */
export function compareBytes(
  left: Buffer,
  leftFrom: number,
  leftTo: number,
  right: Buffer,
  rightFrom: number,
  rightTo: number,
): number {
  const length = Math.min(leftTo - leftFrom, rightTo - rightFrom);
  for (let index = 0; index < length; index++) {
    const difference = (left[leftFrom + index] as number) - (right[rightFrom + index] as number);
    if (difference !== 0) return difference;
  }
  return leftTo - leftFrom - (rightTo - rightFrom);
}

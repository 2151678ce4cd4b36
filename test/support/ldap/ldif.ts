/** The values of an attribute; undefined omits it. */
export type LdifValues = string | Buffer | readonly (string | Buffer)[] | undefined;

/** An entry as LDIF (RFC 2849), to be added. */
export function ldifEntry(dn: string, attributes: Readonly<Record<string, LdifValues>>): string {
  const lines = Object.entries(attributes).flatMap(([name, values]) =>
    valuesOf(values).map((value) => `${ldifLine(name, value)}\n`),
  );
  return `${ldifLine("dn", dn)}\n${lines.join("")}\n`;
}

/** A change of an entry as LDIF: `replace` or `add` or `delete` of whole attributes. */
export function ldifChange(
  dn: string,
  change: "add" | "replace" | "delete",
  attributes: Readonly<Record<string, LdifValues>>,
): string {
  const parts = Object.entries(attributes).map(
    ([name, values]) =>
      `${change}: ${name}\n${valuesOf(values)
        .map((value) => `${ldifLine(name, value)}\n`)
        .join("")}-\n`,
  );
  return `${ldifLine("dn", dn)}\nchangetype: modify\n${parts.join("")}\n`;
}

/** A rename, below another parent if one is given. */
export function ldifRename(dn: string, newRdn: string, newSuperior?: string): string {
  const place = newSuperior === undefined ? "" : `${ldifLine("newsuperior", newSuperior)}\n`;
  return `${ldifLine("dn", dn)}\nchangetype: modrdn\n${ldifLine("newrdn", newRdn)}\ndeleteoldrdn: 1\n${place}\n`;
}

export function ldifDelete(dn: string): string {
  return `${ldifLine("dn", dn)}\nchangetype: delete\n\n`;
}

/** A value within a distinguished name (RFC 4514, 2.4). */
export function rdnValue(value: string): string {
  return value
    .replaceAll(/[\\",+<>;=]/g, String.raw`\$&`)
    .replace(/^[ #]/, String.raw`\$&`)
    .replace(/ $/, String.raw`\ `)
    .replaceAll(/[\0\n\r]/g, (character) => `\\${character.charCodeAt(0).toString(16).padStart(2, "0")}`);
}

function valuesOf(values: LdifValues): readonly (string | Buffer)[] {
  if (values === undefined) return [];
  return typeof values === "string" || Buffer.isBuffer(values) ? [values] : values;
}

/** Anything but safe ASCII is written in base64. */
function ldifLine(name: string, value: string | Buffer): string {
  const harmless = typeof value === "string" && /^(?![ :<])[ -~]*$/.test(value) && !value.endsWith(" ");
  return harmless ? `${name}: ${value}` : `${name}:: ${Buffer.from(value).toString("base64")}`;
}

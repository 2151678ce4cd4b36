/** Between 1601, where FILETIME begins, and 1970, in milliseconds. */
const filetimeEpoch = 11_644_473_600_000;
/** What Active Directory writes for "never". */
const never = new Set(["0", "9223372036854775807"]);

const forms = {
  iso: /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(Z|[+-]\d\d(?::?\d\d)?)?)?$/i,
  generalized: /^(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)?(\d\d)?(?:[.,](\d{1,9}))?(Z|[+-]\d\d(?:\d\d)?))?$/,
};

/**
 * The moment that a text tells: LDAP's GeneralizedTime (`20240131120000Z`), ISO 8601 (`2024-01-31`,
 * `2024-01-31T12:00:00+01:00`), or Active Directory's FILETIME (100 ns since 1601). Without a zone it is in UTC, a date
 * alone is its beginning.
 * @returns null for FILETIME's two ways to say never; undefined when the text is none of these
 */
export function momentOf(text: string): Date | null | undefined {
  if (never.has(text)) return null;
  if (/^\d{16,19}$/.test(text)) return new Date(Number(BigInt(text) / 10_000n) - filetimeEpoch);
  const match = forms.iso.exec(text) ?? forms.generalized.exec(text);
  if (match === null) return undefined;
  const [, year, month, day, hours = 0, minutes, seconds, fraction, zone = "Z"] = match;
  const date = new Date(0);
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day));
  if (date.getUTCMonth() !== Number(month) - 1 || date.getUTCDate() !== Number(day)) return undefined;
  // A leap second is the second after it.
  if (Number(hours) > 23 || Number(minutes ?? 0) > 59 || Number(seconds ?? 0) > 60) return undefined;
  const part = fraction === undefined ? 0 : Number(`0.${fraction}`);
  // A fraction is one of the smallest unit that is given.
  const unit = seconds !== undefined ? 1000 : minutes !== undefined ? 60_000 : 3_600_000;
  date.setUTCHours(Number(hours), Number(minutes ?? 0), Number(seconds ?? 0), Math.floor(part * unit));
  return new Date(date.getTime() - offsetOf(zone));
}

/** How far a zone is ahead of UTC, in milliseconds. */
function offsetOf(zone: string): number {
  if (zone.toUpperCase() === "Z") return 0;
  const [hours, minutes] = [Number(zone.slice(1, 3)), Number(zone.slice(3).replace(":", "") || 0)];
  return (zone.startsWith("-") ? -1 : 1) * (hours * 60 + minutes) * 60_000;
}

import { isIP, isIPv6 } from "node:net";
import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import { nearest } from "./text.ts";

/* The values of a configuration. Their messages say what is expected. */

/** Text that is not empty. @param expected what it is, for the message: `the name of a sync` */
export function text(expected: string) {
  return z.string({ error: `expected ${expected}` }).min(1, { error: `expected ${expected}`, abort: true });
}

/** What a transformation returns for a value that is wrong. @param message what is wrong with it */
export function refused(context: z.RefinementCtx, message: string): never {
  context.addIssue(message);
  return z.NEVER;
}

/** Says what is wrong with a value, or with what is at a path in it; the other checks go on. */
export function addProblem(context: z.RefinementCtx, path: readonly PropertyKey[], message: string): void {
  context.addIssue({ code: "custom", path: [...path], message });
}

/** A whole number that is not less than `least`. */
export const count = (least: number) =>
  z.int({ error: "expected a whole number" }).min(least, { error: `expected ${least} or more` });

/** A whole number within bounds. */
export function wholeNumber(least: number, most: number, error = `expected a whole number from ${least} to ${most}`) {
  return z.int({ error }).min(least, { error }).max(most, { error });
}

/** A mapping whose keys are all optional: left out or left empty, it has every default. */
export function section<Shape extends z.ZodRawShape>(shape: Shape) {
  const schema = z.strictObject(shape);
  return schema.nullish().transform((value) => value ?? schema.parse({}));
}

/** A mapping of names to values. An empty one may be left out. */
export function named<Value extends z.ZodType>(value: Value, name: z.ZodType<string> = label) {
  return z
    .record(name, value)
    .nullish()
    .transform((record) => record ?? {});
}

const milliseconds: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `90s`, `15m`, `3h`, `7d`; never zero. In milliseconds. */
export const duration = text("a duration like 90s, 15m, 3h, 7d")
  .regex(/^[1-9]\d{0,6}[smhd]$/, { error: "expected a duration like 90s, 15m, 3h, 7d" })
  .transform((value) => Number(value.slice(0, -1)) * (milliseconds[value.slice(-1)] ?? 0));

/** A duration as the configuration has it: `5m`. @param value in milliseconds */
export function durationAsWritten(value: number): string {
  const [unit, size] = Object.entries(milliseconds).findLast(([, size]) => value % size === 0) ?? ["s", 1_000];
  return `${Math.round(value / size)}${unit}`;
}

/** A duration that a Node timer can hold. In milliseconds. */
export const patience = duration.refine((value) => value <= 24 * 86_400_000, {
  error: "expected a duration of at most 24d",
});

const bytes: Readonly<Record<string, number>> = { KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 };

export const path = text("the path of a file");

export const notNegative = z
  .int({ error: "expected a whole number" })
  .min(0, { error: "expected a whole number, at least 0" });

export const atLeastOne = z
  .int({ error: "expected a whole number, at least 1" })
  .min(1, { error: "expected a whole number, at least 1" });

/** `64KiB`, `512MiB`, `1GiB`; never zero. In bytes. */
export const size = text("a size like 512MiB or 1GiB")
  .regex(/^[1-9]\d{0,6}[KMGT]iB$/, { error: "expected a size like 512MiB or 1GiB" })
  .transform((value) => Number(value.slice(0, -3)) * (bytes[value.slice(-3)] ?? 0))
  .refine((bytes) => bytes <= 2 ** 50, { error: "expected a size of at most 1024TiB" });

/** At least 64 MiB, which DuckDB needs to work at all. In bytes. */
export const memory = size.refine((bytes) => bytes >= 64 * 2 ** 20, {
  error: "expected a size of at least 64MiB",
});

const address = /^(?:\[(?<v6>[^\]]+)\]|(?<host>[^:\s[\]/@]+)):(?<port>\d{1,5})$/;

/** `host:port`, `[::1]:8442`. Port 0 is a free one. */
export const listen = text("an address like 127.0.0.1:8442 or [::1]:8442").transform((value, context) => {
  const { v6, host, port } = address.exec(value)?.groups ?? {};
  const valid =
    v6 === undefined
      ? host !== undefined && (isIP(host) === 4 || /^(?!(?:.*\.)?\d+$)[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$/i.test(host))
      : isIPv6(v6);
  if (!valid || Number(port) > 65_535) return refused(context, "expected an address like 127.0.0.1:8442 or [::1]:8442");
  return { host: v6 ?? host ?? "", port: Number(port) };
});

/** A host that clients connect to: a name or an address, IPv6 in brackets. */
export const host = text("a host like node1.example.com").regex(
  /^(?:\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)$/i,
  {
    error: "expected a host like node1.example.com",
  },
);

/** An address, or a network of them: `127.0.0.1`, `10.0.0.0/8`, `fd00::/8`. */
export const network = text("an address or a network like 10.0.0.0/8").refine(isNetwork, {
  error: "expected an address or a network like 10.0.0.0/8",
});

function isNetwork(value: string): boolean {
  const { address = "", bits } = /^(?<address>[^/%]+)(?:\/(?<bits>\d{1,3}))?$/.exec(value)?.groups ?? {};
  const version = isIP(address);
  return version !== 0 && Number(bits ?? 0) <= (version === 4 ? 32 : 128);
}

/** The port of a server that clients connect to. */
export const port = wholeNumber(1, 65_535, "expected a port from 1 to 65535");

/** A host, or one port of it: `node1.example.com`, `[::1]:8442`. */
export const node = text("a host like node1.example.com or node1.example.com:8442").regex(
  /^(?:\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)(?::[1-9]\d{0,4})?$/i,
  { error: "expected a host like node1.example.com or node1.example.com:8442" },
);

/** The path before `/tspublic/v1`: empty, or without a final slash. */
export const prefix = z
  .string({ error: 'expected "" or a path like /callosum/v1' })
  .regex(/^(?:\/[\w.~-]+)*$/, { error: 'expected "" or a path like /callosum/v1' });

/** The same for the service's own listener, which also serves the daemon's API. */
export const familyPrefix = prefix.refine((value) => value !== "/control" && !value.startsWith("/control/"), {
  error: "/control belongs to the daemon's own API; choose another path",
});

/** The origin of a server: `https://analytics.example.com`, perhaps with a port. */
export const origin = text("a URL like https://analytics.example.com").transform((value, context) => {
  const url = URL.parse(value);
  if (url === null || !["http:", "https:"].includes(url.protocol))
    return refused(context, "expected a URL like https://analytics.example.com");
  if (url.username !== "" || url.password !== "")
    return refused(context, "the URL must not contain a user name or a password; use the keys username and password");
  if (url.pathname !== "/" || url.search !== "" || url.hash !== "")
    return refused(context, "the URL must not have a path; put the path before /tspublic/v1 into the key prefix");
  return url.origin;
});

/** Where requests go: `https://host/path?query`. */
export const webAddress = text("a URL like https://hooks.example.com/rollcall").transform((value, context) => {
  const url = URL.parse(value);
  if (url === null || !["http:", "https:"].includes(url.protocol))
    return refused(context, "expected a URL like https://hooks.example.com/rollcall");
  if (url.username !== "" || url.password !== "")
    return refused(context, "the URL must not contain a user name or a password; remove them");
  return url.href;
});

/** Whether it is the URL of an HTTP proxy: no path, and credentials that can be decoded. */
export function isProxyUrl(value: string): boolean {
  const url = URL.parse(value);
  if (url === null || !["http:", "https:"].includes(url.protocol) || url.hostname === "") return false;
  if (!["", "/"].includes(url.pathname) || url.search !== "" || url.hash !== "") return false;
  try {
    decodeURIComponent(url.username + url.password);
    return true;
  } catch {
    return false;
  }
}

const aProxy = "expected a URL like http://proxy.example.com:3128, or none";

/** The proxy for HTTP: its URL, perhaps with a user name and a password; false for none. */
export const proxy = z
  .union(
    [
      z.literal(false),
      z.string().transform((value, context): string | false => {
        if (value === "none") return false;
        return isProxyUrl(value) ? value : refused(context, aProxy);
      }),
    ],
    { error: aProxy },
  )
  .describe(
    "The HTTP proxy: http://host:3128 or http://user:password@host:3128. none: no proxy. Absent: as HTTPS_PROXY, HTTP_PROXY and NO_PROXY say.",
  );

export const timezone = text("a time zone like Europe/Amsterdam").refine(isTimeZone, {
  error: ({ input }) => {
    const meant = nearest(String(input), Intl.supportedValuesOf("timeZone"));
    return `expected a time zone like ${meant ?? "Europe/Amsterdam"}`;
  },
});

function isTimeZone(value: string): boolean {
  if (/^[+-]/.test(value)) return false;
  try {
    return new Intl.DateTimeFormat("en", { timeZone: value }).resolvedOptions().timeZone !== "";
  } catch {
    return false;
  }
}

/** The name of a user or a group (B.5). */
export const principalName = text("a name of 1 to 255 characters").refine(
  (value) => value.length <= 510 && Array.from(value).length <= 255 && !/\p{Cc}/u.test(value),
  { error: "expected a name of 1 to 255 characters, none of them a control character" },
);

/** The user's name for a target, a source or a sync. It becomes part of file names. */
const label = z.string().regex(/^[A-Za-z0-9][\w.-]{0,62}$/, {
  error: "expected a name of letters, digits, -, _ and . that starts with a letter or a digit (at most 63)",
});

/** The keys of two mappings that differ, such as `users.mail`; nested ones with a dot between them. */
export function differingKeys(before: unknown, after: unknown, path: readonly string[] = []): string[] {
  if (isDeepStrictEqual(before, after)) return [];
  if (!isObject(before) || !isObject(after)) return [path.join(".")];
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...keys].flatMap((key) => differingKeys(before[key], after[key], [...path, key]));
}

/** Whether it is an object of JSON or a mapping of YAML: no list. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

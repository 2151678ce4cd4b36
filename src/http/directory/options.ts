import { resolve } from "node:path";
import { z } from "zod";
import { InputError } from "#errors.ts";
import { longestCertificates, readAuthorities } from "#files/certificates.ts";
import { readSmallFile, unreadable } from "#files/disk.ts";
import { addProblem, count, path, patience, text } from "#values.ts";
import { isLoopback } from "#http/listening.ts";
import type { ApiOptions, ApiTimeouts } from "./api.ts";
import type { Authorization } from "./authorization.ts";
import {
  assertionGrant,
  basic,
  bearer,
  federatedGrant,
  fixedHeaders,
  secretGrant,
  subjectGrant,
  TokenAuthorization,
} from "./credentials.ts";
import type { Grant, SigningKey } from "./credentials.ts";

/** The options for how much there must be at least; `Enough` (connector.ts) checks them. */
export const minimums = {
  minUsers: count(0)
    .optional()
    .describe("Fewer users fail the read. Default: half as many as at the last good read, at least 1."),
  minGroups: count(0)
    .optional()
    .describe("Fewer groups fail the read. Default: half as many as at the last good read."),
  minMemberships: count(0)
    .optional()
    .describe(
      "Fewer memberships fail the read. Default: half as many as at the last good read, at least 1 where there are groups. 0: all groups may be empty.",
    ),
};

/** The option for attributes that may become empty for everybody. @param example the name of one, for messages */
export const optionalAttributesLike = (example: string) =>
  z
    .array(text(`the name of an attribute, such as ${example}`))
    .optional()
    .describe(
      "Attributes that rules name and that may be missing everywhere. Default: the read fails if ten or more had the attribute at the last good read, and none has it now.",
    );

/** The option `ca`. */
export const authorities = path
  .optional()
  .describe("A file of certificates (PEM) of the authorities to trust. Default: those that Node.js trusts.");

/** The option `allowPlainHttp`. */
export const allowPlainHttp = z
  .boolean()
  .default(false)
  .describe("Allow http:// to other machines: anybody in between can read and change everything.");

/** What a header can hold: not the newline at the end of a secret's file. */
export const token = text("a token").regex(/^[\x21-\x7e]+$/, {
  error: "expected a token, without spaces or line ends",
});

/** `Token …`, `GenieKey …`: what many services have instead of `Bearer`. */
const headerValue = text("a value").regex(/^[\x21-\x7e]+(?: [\x21-\x7e]+)*$/, {
  error: "expected a value without line ends, and without spaces around it",
});

/** The address of a service, without credentials. @param example for messages; query: whether one is allowed */
export function serviceUrl(example: string, { query = false } = {}) {
  const expected = `a URL like ${example}`;
  return text(expected).superRefine((value, context) => {
    const parsed = URL.parse(value);
    const problem = (message: string): void => addProblem(context, [], message);
    if (parsed === null || !["http:", "https:"].includes(parsed.protocol)) problem(`expected ${expected}`);
    else if (parsed.username !== "" || parsed.password !== "")
      problem("a URL with a user or a password in it; they have a key of their own: auth");
    else if (!query && parsed.search !== "") problem("a URL with a query or a fragment; expected none");
    else if (parsed.hash !== "") problem("a URL with a query or a fragment; expected none");
  });
}

const plainHttp = "http:// would send tokens and passwords unencrypted; use https://, or set allowPlainHttp";

/** Whether anybody on the way could read what is sent there. */
export function isPlain(value: string | undefined): boolean {
  const url = value === undefined ? null : URL.parse(value);
  return url?.protocol === "http:" && !isLoopback(url.hostname);
}

const signingKey = z
  .strictObject({
    file: path.describe("The private key: PEM without a passphrase, or a JWK."),
    algorithm: z
      .enum(["RS256", "PS256", "ES256"], { error: "expected RS256, PS256 or ES256" })
      .optional()
      .describe("How to sign. Default: ES256 with an elliptic key, otherwise RS256."),
    kid: text("the id of the key").optional().describe("The id under which the server knows the key."),
    certificate: path.optional().describe("The certificate of the key (PEM), for servers that know it by that."),
  })
  .describe("Signs an assertion instead of sending a secret.");

const oauth = z
  .strictObject({
    tokenUrl: serviceUrl("https://idp.example.com/oauth2/token").describe("The token endpoint."),
    clientId: text("a client id").describe("The client id."),
    clientSecret: text("a secret").optional().describe("The client's secret; better ${env:NAME} or ${file:/path}."),
    key: signingKey.optional(),
    federatedToken: z
      .strictObject({ file: path.describe("The file, which is read for every token.") })
      .optional()
      .describe("A token of another issuer that stands in for a secret (workload identity)."),
    subject: text("a name")
      .optional()
      .describe("Act for this person: the JWT bearer grant, with key. Default: the client acts for itself."),
    scope: text("scopes, with spaces between them")
      .optional()
      .describe("The scopes to request. Default: whatever the server grants."),
    audience: text("an audience").optional().describe("The audience, for servers that require one."),
    send: z
      .enum(["header", "body"], { error: "expected header or body" })
      .default("header")
      .describe("Where the client's id and secret are sent: header (HTTP Basic) or body. Default header."),
  })
  .superRefine(({ clientSecret, key, federatedToken, subject }, context) => {
    const ways = [clientSecret, key, federatedToken].filter((way) => way !== undefined).length;
    if (ways !== 1) addProblem(context, ["clientSecret"], "expected one of clientSecret, key and federatedToken");
    else if (subject !== undefined && key === undefined)
      addProblem(context, ["subject"], "needs a key: the request is signed");
  });

/** How a client proves who it is. */
export const auth = z
  .union(
    [
      z.strictObject({ bearer: token.describe("A token; better ${env:NAME} or ${file:/path}.") }),
      z.strictObject({
        basic: z
          .strictObject({
            username: text("a user name").describe("The user name."),
            password: text("a password").describe("The user's password; better ${env:NAME} or ${file:/path}."),
          })
          .describe("HTTP Basic: a user and a password."),
      }),
      z.strictObject({ oauth: oauth.describe("OAuth 2 client credentials.") }),
      z.strictObject({
        headers: z
          .record(z.string().regex(/^[\w-]+$/, "expected the name of a header"), headerValue)
          .describe("Headers of every request, by name."),
      }),
    ],
    {
      error:
        "expected {bearer}, {basic: {username, password}}, {oauth: {tokenUrl, clientId, clientSecret}} or {headers}",
    },
  )
  .describe(
    "The credentials: bearer (a token), basic, oauth (client credentials), or headers for servers that require a header of their own.",
  );

export type Auth = z.infer<typeof auth>;

/** A certificate that a client shows (mutual TLS). */
export const clientCertificate = z
  .strictObject({
    file: path.describe("The certificate (PEM), with those of its issuers if the server needs them."),
    key: path.describe("Its private key (PEM, without a passphrase)."),
  })
  .describe("A client certificate to show to the server (mutual TLS).");

/** Time limits, in milliseconds. */
export const timeouts = z
  .strictObject({
    connect: patience.prefault("10s").describe("Time to connect, TLS included. Default 10s."),
    answer: patience.prefault("2m").describe("Time until an answer begins, and between two pieces of it. Default 2m."),
    request: patience
      .prefault("30m")
      .describe("One request up to the last byte of its answer, however steadily it arrives. Default 30m."),
    read: patience.prefault("12h").describe("Everything together. Default 12h."),
    pause: patience
      .prefault("1m")
      .describe("The longest pause to accept when the server asks for one (Retry-After). Default 1m."),
  } satisfies Record<keyof ApiTimeouts, z.ZodType>)
  .prefault({})
  .describe("Time limits.");

/** What is wrong with addresses that secrets would be sent to unencrypted: the option, and the message. */
export function plainProblems(options: {
  readonly url?: string | undefined;
  readonly auth?: Auth | undefined;
  readonly allowPlainHttp: boolean;
}): (readonly [option: "url" | "auth", message: string])[] {
  if (options.allowPlainHttp) return [];
  return [
    ...(isPlain(options.url) ? [["url", plainHttp] as const] : []),
    ...(isPlain(tokenUrlOf(options.auth)) ? [["auth", `tokenUrl: ${plainHttp}`] as const] : []),
  ];
}

/** The URL of the token endpoint, if there is one. */
function tokenUrlOf(value: Auth | undefined): string | undefined {
  return value !== undefined && "oauth" in value ? value.oauth.tokenUrl : undefined;
}

/** Reads a text file. @param option the one that names it, for messages. @throws {InputError} */
export type ReadFile = (option: string, path: string) => string;

/** @param folder where relative paths start: the configuration's */
export function fileReader(folder: string): ReadFile {
  return (option, name) => {
    const full = resolve(folder, name);
    try {
      return readSmallFile(full, longestCertificates).toString();
    } catch (cause) {
      const { message } = cause instanceof InputError ? cause : unreadable(name, full, cause);
      throw new InputError(`${option}: ${message}`, { cause });
    }
  };
}

/** The options for how a service is reached. */
interface ConnectionOptions extends Pick<ApiOptions, "timeouts" | "concurrency" | "proxy" | "allowPlainHttp"> {
  readonly ca?: string | undefined;
  readonly certificate?: z.infer<typeof clientCertificate> | undefined;
}

/** The same with the certificates that the options name. @param folder where relative paths start. @throws {InputError} a file cannot be read */
export function connectionOf(
  { timeouts, concurrency, proxy, allowPlainHttp, ca, certificate }: ConnectionOptions,
  folder: string,
): Pick<ApiOptions, keyof ConnectionOptions> {
  const read = fileReader(folder);
  return {
    timeouts,
    concurrency,
    proxy,
    allowPlainHttp,
    ca: ca === undefined ? undefined : readAuthorities(resolve(folder, ca), `ca: ${ca}`),
    certificate: certificate && {
      cert: read("certificate.file", certificate.file),
      key: read("certificate.key", certificate.key),
    },
  };
}

/** @param readFile called for every token, never before the first */
export function authorizationOf(value: Auth | undefined, readFile: ReadFile): Authorization {
  if (value === undefined) return fixedHeaders({}, [], "anonymous (no auth)");
  if ("bearer" in value) return bearer(value.bearer);
  if ("basic" in value) return basic(value.basic.username, value.basic.password);
  if ("headers" in value) {
    const names = Object.keys(value.headers).join(", ");
    return fixedHeaders(value.headers, Object.values(value.headers), `the holder of the header ${names}`);
  }
  return new TokenAuthorization(grantOf(value.oauth, readFile));
}

function grantOf(oauth: Extract<Auth, { oauth: unknown }>["oauth"], readFile: ReadFile): Grant {
  const { tokenUrl, clientId, clientSecret = "", key, federatedToken, subject, scope, audience, send } = oauth;
  if (federatedToken !== undefined)
    return federatedGrant({
      tokenUrl,
      clientId,
      scope,
      audience,
      read: () => readFile("auth.oauth.federatedToken.file", federatedToken.file),
    });
  if (key === undefined) return secretGrant({ tokenUrl, clientId, clientSecret, scope, audience, send });
  const signing = signingKeyOf(key, readFile);
  return subject === undefined
    ? assertionGrant({ tokenUrl, clientId, scope, audience, key: signing })
    : subjectGrant({ tokenUrl, issuer: clientId, subject, scope, audience, key: signing });
}

function signingKeyOf(
  { file, algorithm, kid, certificate }: z.infer<typeof signingKey>,
  readFile: ReadFile,
): SigningKey {
  return {
    name: file,
    read: () => readFile("auth.oauth.key.file", file),
    algorithm,
    kid,
    certificate: certificate === undefined ? undefined : () => readFile("auth.oauth.key.certificate", certificate),
  };
}

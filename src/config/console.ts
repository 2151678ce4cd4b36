import { z } from "zod";
import { isLoopback } from "#http/listening.ts";
import { roles } from "#roles.ts";
import * as values from "#values.ts";

/** Where browsers reach the console: an origin, perhaps with a path below which a proxy passes it on. Without a final slash. */
const publicUrl = values.text("a URL like https://rollcall.example.com").transform((value, context): string => {
  const url = URL.parse(value);
  if (url === null || !["http:", "https:"].includes(url.protocol))
    return values.refused(context, "expected a URL like https://rollcall.example.com");
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "")
    return values.refused(
      context,
      "the URL must have neither a user name nor a query; expected one like https://rollcall.example.com",
    );
  return url.href.replace(/\/+$/, "");
});

const issuer = values.text("the issuer, a URL like https://login.example.com/realms/staff").refine(
  (value) => {
    const url = URL.parse(value);
    return url?.protocol === "https:" || (url?.protocol === "http:" && isLoopback(url.hostname));
  },
  { error: "expected the issuer, a URL with https:// like https://login.example.com/realms/staff" },
);

const expectedGroups = 'expected a group, a list of them, { claim, values }, or "*" for everybody who can sign in';
const group = values.text("the name of a group");
const groups = z.union([group, z.array(group).min(1, { error: expectedGroups })], { error: expectedGroups });

/** Who has a role: members of groups, or people with a certain claim. */
const whoHas = z
  .union(
    [
      groups,
      z.strictObject({
        claim: values.text("the name of a claim"),
        values: z.union([values.text("a value"), z.array(values.text("a value")).min(1)], { error: expectedGroups }),
      }),
    ],
    { error: expectedGroups },
  )
  .transform((value) =>
    typeof value === "string" || Array.isArray(value)
      ? { values: [value].flat() }
      : { claim: value.claim, values: [value.values].flat() },
  );

const oidc = z
  .strictObject({
    issuer: issuer.describe("The provider's issuer, as its discovery document says it."),
    name: values
      .text("a name")
      .exactOptional()
      .describe("What people call it, on the sign-in page. Absent: the issuer's host."),
    clientId: values
      .text("the id that the provider has for Rollcall")
      .describe("The id that the provider has for Rollcall."),
    clientSecret: values
      .text("a secret, or where it is: ${env:NAME} or ${file:/path}")
      .exactOptional()
      .describe("The client's secret; better ${env:NAME} or ${file:/path}. Absent: a public client, which has none."),
    scopes: z
      .array(values.text("a scope"), { error: "expected a list of scopes like [openid, profile, email]" })
      .prefault(["openid", "profile", "email"])
      .describe(
        "What to ask the provider for; some give groups, or a longer session (offline_access), only to who asks.",
      ),
    groups: values
      .text("the name of a claim")
      .prefault("groups")
      .describe("The claim that lists a person's groups. Dots reach into objects: realm_access.roles."),
    roles: z
      .strictObject({
        viewer: whoHas.exactOptional().describe("Who may look."),
        approver: whoHas.exactOptional().describe("Who may also run, approve, reject and undo."),
        administrator: whoHas.exactOptional().describe("Who may also override limits, try rules and manage accounts."),
      })
      .refine((value) => roles.some((role) => value[role] !== undefined), {
        error: "expected at least one of viewer, approver and administrator: nobody could sign in",
      })
      .describe(
        'Who has which role: a group, a list of them, { claim, values }, or "*". A person in several has the highest.',
      ),
    ca: values.path.exactOptional().describe("A PEM file with the certificate authority of the provider."),
    proxy: values.proxy.exactOptional(),
  })
  .transform((value) => ({ ...value, name: value.name ?? URL.parse(value.issuer)?.host ?? value.issuer }));

/** `console`: who may use it, and where it is reached. */
export const consoleSettings = values.section({
  viewers: z
    .boolean()
    .prefault(false)
    .describe("true: users of the service without the administration privilege may look, as viewers."),
  publicUrl: publicUrl
    .exactOptional()
    .describe(
      "Where browsers reach the console, such as https://rollcall.example.com. Needed for `oidc` and behind a proxy.",
    ),
  oidc: oidc.exactOptional().describe("Sign-in with an OpenID Connect provider."),
});

export type ConsoleSettings = z.output<typeof consoleSettings>;

export type OidcOptions = z.output<typeof oidc>;

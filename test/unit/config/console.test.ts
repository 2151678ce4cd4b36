import { expect, test } from "vitest";
import { load, problemsOf, valid } from "./support.ts";

const oidc = `console:
  publicUrl: https://rollcall.example.com/
  oidc:
    issuer: https://login.example.com/realms/staff
    clientId: rollcall
    clientSecret: "\${env:OIDC_SECRET}"
    roles:
      viewer: "*"
      approver: [identity, helpdesk]
      administrator: { claim: email, values: kim@example.com }
`;
const environment = { OIDC_SECRET: "correct-horse-battery" };

test("sign-in with a provider: groups, claims and everybody become roles", async () => {
  const { configuration } = await load(valid + oidc, { environment });
  expect(configuration.console).toEqual({
    viewers: false,
    publicUrl: "https://rollcall.example.com",
    oidc: {
      issuer: "https://login.example.com/realms/staff",
      name: "login.example.com",
      clientId: "rollcall",
      clientSecret: environment.OIDC_SECRET,
      scopes: ["openid", "profile", "email"],
      groups: "groups",
      roles: {
        viewer: { values: ["*"] },
        approver: { values: ["identity", "helpdesk"] },
        administrator: { claim: "email", values: ["kim@example.com"] },
      },
    },
  });
  expect(configuration.secrets).toContain(environment.OIDC_SECRET);
});

test("what is wrong with the console's settings is said with its line", async () => {
  const problems = (text: string): Promise<readonly string[]> => problemsOf(valid + text, { environment });
  expect(await problems(oidc.replace(/ {2}publicUrl: .*\n/, ""))).toEqual([
    "rollcall.yaml:15:3: console.oidc: needs `console.publicUrl`, the address at which browsers reach the console, such as https://rollcall.example.com",
  ]);
  expect(await problems(oidc.replace("https://login", "http://login"))).toEqual([
    expect.stringContaining("console.oidc.issuer: expected the issuer, a URL with https://"),
  ]);
  expect(await problems(oidc.replace(/roles:[^]*$/, "roles: {}\n"))).toEqual([
    expect.stringContaining("console.oidc.roles: expected at least one of viewer, approver and administrator"),
  ]);
  expect(await problems(oidc.replace("example.com/\n", "example.com/?x=1\n"))).toEqual([
    expect.stringContaining("console.publicUrl: the URL must have neither a user name nor a query"),
  ]);
  expect(await problems(oidc.replace("approver: [identity, helpdesk]", "approver: 7"))).toEqual([
    expect.stringContaining("console.oidc.roles.approver: expected a group"),
  ]);
});

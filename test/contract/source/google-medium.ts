import { mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { GoogleDirectory, GoogleFaults, GoogleMember } from "../../support/google/directory.ts";
import { startGoogle, subject } from "../../support/google/server.ts";
import type { GoogleServer } from "../../support/google/server.ts";
import type { Company } from "./company.ts";
import type { Medium, Provision } from "./suite.ts";

/** A company in Google Workspace. */
export interface GoogleProvision extends Provision {
  readonly server: GoogleServer;
  readonly options: Readonly<Record<string, unknown>>;
}

const idOf = (number: string): string => `1000${number}`;
const groupIdOf = (number: string): string => `0g${number}`;

/** A company as Google has it: everybody has an address of their own, and what the company calls a login is beside it. */
function googleOf({ users, groups }: Company): GoogleDirectory {
  const members = new Map<string, GoogleMember[]>(groups.map(({ name }) => [name, []]));
  for (const { number, groups: names } of users)
    for (const name of names)
      members.get(name)?.push({ id: idOf(number), email: `u${number}@example.com`, type: "USER" });
  for (const { number, groups: names } of groups)
    for (const name of names)
      members.get(name)?.push({ id: groupIdOf(number), email: `g${number}@example.com`, type: "GROUP" });
  for (const all of members.values()) all.sort((a, b) => (a.id < b.id ? -1 : 1));
  const byEmail =
    <Item>(emailOf: (item: Item) => string) =>
    (a: Item, b: Item): number =>
      emailOf(a) < emailOf(b) ? -1 : 1;
  return {
    users: users
      .map(({ number, login, displayName, mail }) => ({
        id: idOf(number),
        primaryEmail: `u${number}@example.com`,
        name: { givenName: login, familyName: "Example", fullName: displayName },
        suspended: false,
        externalIds: [{ value: login, type: "login_id" }],
        ...(mail === undefined ? {} : { emails: [{ address: mail, type: "work" }] }),
      }))
      .sort(byEmail(({ primaryEmail }) => primaryEmail)),
    groups: groups
      .map(({ number, name, description }) => ({
        id: groupIdOf(number),
        email: `g${number}@example.com`,
        name,
        ...(description === undefined ? {} : { description }),
      }))
      .sort(byEmail(({ email }) => email)),
    members: ({ name }) => members.get(String(name)) ?? [],
  };
}

/** A server, and the options with which it is read. */
export async function provideGoogle(directory: GoogleDirectory, faults: GoogleFaults = {}) {
  const server = await startGoogle(directory, faults);
  const folder = await realpath(await mkdtemp(join(tmpdir(), "rollcall-google-")));
  await writeFile(join(folder, "key.json"), JSON.stringify(server.key));
  return {
    server,
    folder,
    options: { key: { file: "key.json" }, subject, endpoints: server.endpoints, attempts: 2 },
    dispose: async () => {
      await server.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export function googleMedium(medium: Pick<Medium<GoogleProvision>, "faults">): Medium<GoogleProvision> {
  return {
    name: "Google Workspace",
    module: new URL("../../../connectors/google/index.ts", import.meta.url).href,
    attributes: {
      login: "externalIds.login_id",
      displayName: "displayName",
      mail: "emails.work",
      name: "name",
      description: "description",
    },
    describes: [
      /http:\/\/127\.0\.0\.1:\d+, not encrypted/,
      /rollcall@rollcall-1\S+ for admin@example.com/,
      /users can be read, groups/,
    ],
    ...medium,
    async provision(company) {
      const provided = await provideGoogle(googleOf(company));
      const { server } = provided;
      return {
        ...provided,
        secrets: [server.key["private_key"] ?? "", "ya29."],
        rename: async (number, login) => {
          const users = company.users.map((user) =>
            user.number === number ? { ...user, login, displayName: login } : user,
          );
          server.directory.users = googleOf({ ...company, users }).users;
        },
        // The server learns a moment later what was closed.
        held: async () => {
          for (let moment = 0; moment < 100 && server.open.size > 0; moment++) await sleep(20);
          return server.open.size;
        },
      };
    },
  };
}

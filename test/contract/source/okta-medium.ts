import { setTimeout as sleep } from "node:timers/promises";
import {
  type OktaDirectory,
  type OktaGroup,
  type OktaOptions,
  OktaServer,
  type OktaUser,
} from "../../support/okta-directory.ts";
import type { Company } from "./company.ts";
import type { Medium, Provision } from "./suite.ts";

/** A company at Okta. */
export interface OktaProvision extends Provision {
  readonly server: OktaServer;
}

/** In every user, to be sure that no error shows what a directory holds. */
const secretQuestion = "hunter2-is-secret";
const updated = "2026-11-01T08:00:00.000Z";

/** The id of a user of a company. In the order of its users, as the simulator expects it. */
function idOf(number: string): string {
  return `00u${number.padStart(17, "0")}`;
}

/** A company as Okta has it, where groups hold users alone. Two people who left are still in Everyone and in their groups. */
export function oktaDirectoryOf({
  users,
  groups,
}: Company): OktaDirectory & { users: OktaUser[]; groups: OktaGroup[] } {
  const people = users.map(({ number, login, displayName, mail }): OktaUser => ({
    id: idOf(number),
    status: "ACTIVE",
    lastUpdated: updated,
    profile: { login, displayName, ...(mail === undefined ? {} : { email: mail }), secondEmail: null, secretQuestion },
  }));
  const left = ["left-1", "left-2"].map((login): OktaUser => ({
    id: idOf(login).replace("00u", "00z"),
    status: "DEPROVISIONED",
    lastUpdated: updated,
    profile: { login, displayName: login, secretQuestion },
  }));
  const members = new Map(groups.map(({ name }): [string, number[]] => [name, [users.length]]));
  for (const [index, user] of users.entries()) for (const name of user.groups) members.get(name)?.push(index);
  const all = [...people, ...left];
  const group = (id: string, type: OktaGroup["type"], name: string, of: readonly number[], description?: string) => ({
    id: `00g${id.padStart(17, "0")}`,
    type,
    profile: { name, description: description ?? null },
    lastUpdated: updated,
    lastMembershipUpdated: updated,
    members: of,
  });
  return {
    users: all,
    groups: [
      group("everyone", "BUILT_IN", "Everyone", [...all.keys()]),
      ...groups.map(({ number, name, description }) =>
        group(number, "OKTA_GROUP", name, members.get(name) ?? [], description),
      ),
    ],
  };
}

const token = "00a-token-that-nobody-may-see";

/** @param options beside the url and the token, or instead of it */
export function oktaMedium(
  name: string,
  {
    server: serverOptions = { token },
    options = { token },
    ...medium
  }: { readonly server?: OktaOptions; readonly options?: object } & Pick<
    Medium<OktaProvision>,
    "faults" | "large" | "describes" | "many"
  >,
): Medium<OktaProvision> {
  return {
    name,
    module: new URL("../../../connectors/okta/index.ts", import.meta.url).href,
    attributes: { login: "login", displayName: "displayName", mail: "email", name: "name", description: "description" },
    nests: false,
    versions: true,
    many: 1_500,
    ...medium,
    async provision(company) {
      const directory = oktaDirectoryOf(company);
      const server = await OktaServer.start(directory, serverOptions);
      return {
        options: { url: server.url, ...options },
        folder: "/",
        secrets: [token, secretQuestion],
        server,
        rename: async (number, login) => {
          directory.users = directory.users.map((user) =>
            user.id === idOf(number)
              ? {
                  ...user,
                  lastUpdated: "2026-11-02T08:00:00.000Z",
                  profile: { ...user.profile, login, displayName: login },
                }
              : user,
          );
        },
        // The server learns a moment later what was closed.
        held: async () => {
          for (let moment = 0; moment < 100 && server.open.size > 0; moment++) await sleep(20);
          return server.open.size;
        },
        dispose: () => server.close(),
      };
    },
  };
}

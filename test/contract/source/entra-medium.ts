import { setTimeout as sleep } from "node:timers/promises";
import { startEntra } from "../../support/entra/directory.ts";
import type { EntraDirectory } from "../../support/entra/directory.ts";
import { app, idOf } from "../../support/entra/tenant.ts";
import type { GraphObject, Member, Tenant } from "../../support/entra/tenant.ts";
import type { Company } from "./company.ts";
import type { Medium, Provision } from "./suite.ts";

/** A company in a tenant of Entra ID. */
export interface EntraProvision extends Provision {
  readonly directory: EntraDirectory;
}

export function entraMedium(options: object, faults: Medium<EntraProvision>["faults"]): Medium<EntraProvision> {
  return {
    name: "Entra ID",
    module: new URL("../../../connectors/entra/index.ts", import.meta.url).href,
    attributes: {
      login: "userPrincipalName",
      displayName: "displayName",
      mail: "mail",
      name: "displayName",
      description: "description",
    },
    faults,
    versions: true,
    many: 2_500,
    describes: [
      /^http:\/\/127\.0\.0\.1:\d+\/v1\.0\/, not encrypted \(http\)$/m,
      /^as the client 1b6d2f0a-58c1-4a5e-8f39-c1d2e3f4a5b6 of the tenant 0f5e3a8c-/m,
      /^a tenant with 9 users and 7 groups$/m,
      /^with the permissions User\.Read\.All, GroupMember\.Read\.All, Member\.Read\.Hidden$/m,
    ],
    async provision(company) {
      const directory = await startEntra(tenantOf(company));
      return {
        directory,
        options: { ...optionsOf(directory), ...options },
        folder: "/",
        secrets: [app.clientSecret],
        rename: async (number, login) => {
          const users = company.users.map((user) => (user.number === number ? { ...user, login } : user));
          directory.tenant.users = tenantOf({ ...company, users }).users;
          directory.changed(
            "users",
            idOf(
              "user",
              users.findIndex((user) => user.number === number),
            ),
          );
        },
        // The server learns a moment later what was closed.
        held: async () => {
          for (let moment = 0; moment < 100 && directory.open.size > 0; moment++) await sleep(20);
          return directory.open.size;
        },
        dispose: () => directory.close(),
      };
    },
  };
}

/** What the configuration says of a tenant on this machine. */
export function optionsOf({ login, graph }: EntraDirectory): object {
  return { tenant: app.tenant, clientId: app.clientId, clientSecret: app.clientSecret, cloud: { login, graph } };
}

function tenantOf({ users, groups }: Company): Tenant {
  const places = new Map(groups.map(({ name }, place) => [name, place]));
  const members = new Map<string, Member[]>(groups.map((_, place) => [idOf("group", place), []]));
  const join = (type: "user" | "group", place: number, names: readonly string[]): void => {
    for (const name of names) members.get(idOf("group", places.get(name) ?? -1))?.push({ type, id: idOf(type, place) });
  };
  for (const [place, user] of users.entries()) join("user", place, user.groups);
  for (const [place, group] of groups.entries()) join("group", place, group.groups);
  return {
    users: users.map(({ login, displayName, mail }, place): GraphObject => ({
      id: idOf("user", place),
      userPrincipalName: login,
      displayName,
      mail: mail ?? null,
      accountEnabled: true,
      userType: "Member",
    })),
    groups: groups.map(({ name, description }, place): GraphObject => ({
      id: idOf("group", place),
      displayName: name,
      description: description ?? null,
      groupTypes: [],
      securityEnabled: true,
    })),
    members: (id) => members.get(id) ?? [],
  };
}

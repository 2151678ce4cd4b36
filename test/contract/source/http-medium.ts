import { setTimeout as sleep } from "node:timers/promises";
import { credentials, startHttpDirectory } from "../../support/http-directory.ts";
import type { HttpCompany, HttpDirectory } from "../../support/http-directory.ts";
import type { Company } from "./company.ts";
import type { Medium, Provision } from "./suite.ts";

/** A company behind an HTTP address. */
export interface HttpProvision extends Provision {
  readonly server: HttpDirectory;
}

const module = new URL("../../../connectors/http/index.ts", import.meta.url).href;

function httpCompanyOf({ users, groups }: Company): HttpCompany {
  const members = new Map<string, { id: string; kind: "user" | "group" }[]>(groups.map(({ name }) => [name, []]));
  for (const user of users) for (const name of user.groups) members.get(name)?.push({ id: user.number, kind: "user" });
  for (const group of groups)
    for (const name of group.groups) members.get(name)?.push({ id: group.number, kind: "group" });
  return {
    people: users.map(({ number, login, displayName, mail }) => ({ id: number, login, name: displayName, mail })),
    teams: groups.map(({ number, name, description }) => ({
      id: number,
      name,
      about: description,
      members: members.get(name) ?? [],
    })),
  };
}

/** How the plain lists of `startHttpDirectory` are declared: by link, by cursor, by page, with totals. */
export function plainOptions(url: string): object {
  return {
    url: `${url}/plain`,
    auth: { bearer: credentials.token },
    users: {
      url: "people?limit=200",
      items: "data.list",
      id: "id",
      next: { link: "meta.next", always: true },
      proof: { total: "meta.total" },
      find: { url: "people/{id}" },
    },
    groups: {
      url: "teams",
      items: "data.list",
      id: "id",
      next: { cursor: "meta.cursor", parameter: "after", always: true },
      size: { parameter: "limit", count: 100 },
      proof: { total: "meta.total" },
      members: {
        url: "teams/{id}/members",
        items: "members",
        id: "id",
        kind: { path: "kind" },
        next: { page: "page" },
        proof: { expected: "size" },
      },
      find: { url: "teams/{id}" },
    },
  };
}

/** How Workday's reports are declared: one answer each, of which two are equal. */
export function reportOptions(url: string): object {
  return {
    url: `${url}/ccx/service/customreport2/acme/ISU_Rollcall`,
    auth: { basic: credentials.basic },
    users: { url: "Workers?format=json", items: "Report_Entry", id: "Employee_ID" },
    groups: { url: "Organizations?format=csv", format: "csv", id: "Organization_ID" },
    memberships: {
      url: "Memberships?format=csv",
      format: "csv",
      group: "Organization_ID",
      member: "Member_ID",
      kind: { path: "Type", user: "Worker", group: "Organization" },
    },
  };
}

export function httpMedium(
  name: string,
  options: (url: string) => object,
  medium: Pick<Medium<HttpProvision>, "attributes" | "faults" | "describes">,
): Medium<HttpProvision> {
  return {
    name,
    module,
    ...medium,
    async provision(company) {
      const server = await startHttpDirectory(httpCompanyOf(company));
      return {
        options: options(server.url),
        folder: "/",
        secrets: [credentials.token, credentials.basic.password, "hunter2-is-secret"],
        server,
        rename: async (number, login) => {
          server.company.people = server.company.people.map((person) =>
            person.id === number ? { ...person, login, name: login } : person,
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

import { mkdtemp, readdir, readlink, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import {
  details,
  type ScimDirectory,
  type ScimResource,
  type ScimServer,
  type ScimServerOptions,
} from "../../support/scim.ts";
import type { Company } from "./company.ts";
import type { Medium, Provision } from "./suite.ts";
import type { AttributeNames } from "./view.ts";

/** A company on a SCIM server. */
export interface ScimProvision extends Provision {
  readonly server: ScimServer;
}

/** A company in files of SCIM resources. */
export interface ScimFilesProvision extends Provision {
  readonly path: (file: string) => string;
}

const module = new URL("../../../connectors/scim/index.ts", import.meta.url).href;

const attributes: AttributeNames = {
  login: "userName",
  displayName: "displayName",
  mail: "mail",
  name: "displayName",
  description: "description",
};

/** In every user, to be sure that no error shows what a directory holds. */
const nickname = "hunter2-is-secret";

/** A company as SCIM has it: users, and groups with all their members. */
export function directoryOf({ users, groups }: Company): ScimDirectory {
  const members = new Map<string, ScimResource[]>(groups.map(({ name }) => [name, []]));
  for (const user of users) for (const name of user.groups) members.get(name)?.push({ id: user.number, type: "User" });
  for (const group of groups)
    for (const name of group.groups) members.get(name)?.push({ id: group.number, type: "Group" });
  return {
    users: users.map(({ number, login, displayName, mail }) => ({
      schemas: ["urn:ietf:params:scim:schemas:core:2.0:User"],
      id: number,
      userName: login,
      displayName,
      nickName: nickname,
      active: true,
      ...(mail === undefined ? {} : { emails: [{ value: mail, type: "work", primary: true }] }),
      meta: { resourceType: "User" },
    })),
    groups: groups.map(({ number, name, description }) => ({
      schemas: ["urn:ietf:params:scim:schemas:core:2.0:Group", details],
      id: number,
      displayName: name,
      members: (members.get(name) ?? []).map(({ id, type }) => ({
        value: id,
        type,
        $ref: `/scim/v2/${String(type)}s/${id}`,
      })),
      ...(description === undefined ? {} : { [details]: { description } }),
      meta: { resourceType: "Group" },
    })),
  };
}

function renamed(company: Company, number: string, login: string): Company {
  const users = company.users.map((user) => (user.number === number ? { ...user, login, displayName: login } : user));
  return { ...company, users };
}

export function scimMedium(
  name: string,
  {
    start,
    options = {},
    ...medium
  }: {
    start: (directory: ScimDirectory, options: ScimServerOptions) => Promise<ScimServer>;
    options?: object;
  } & Pick<Medium<ScimProvision>, "faults" | "large" | "many" | "describes">,
): Medium<ScimProvision> {
  const token = "a-token-that-nobody-may-see";
  return {
    name,
    module,
    attributes,
    ...medium,
    async provision(company) {
      const server = await start(directoryOf(company), { authorization: () => `Bearer ${token}` });
      return {
        options: { url: server.url, auth: { bearer: token }, ...options },
        folder: "/",
        secrets: [token, nickname],
        server,
        rename: async (number, login) => {
          server.directory.users = directoryOf(renamed(company, number, login)).users;
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

/** Files by name, and the options that name them. */
export interface FilesFormat {
  readonly name: string;
  readonly options: object;
  readonly describes: readonly RegExp[];
  write(directory: ScimDirectory): Readonly<Record<string, string | Buffer>>;
}

/** A ListResponse, of `total` resources in all. */
export const list = (resources: readonly object[], startIndex = 1, total = resources.length) => ({
  schemas: ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
  totalResults: total,
  startIndex,
  Resources: resources,
});

export const twoLists: FilesFormat = {
  name: "SCIM files, a list of users and a list of groups",
  options: { users: "users.json", groups: "groups.json" },
  describes: [/^users in users\.json$/m, /^groups in groups\.json$/m],
  write: ({ users, groups }) => ({
    "users.json": JSON.stringify(list(users)),
    "groups.json": `\u{FEFF}${JSON.stringify(list(groups), undefined, 2)}`,
  }),
};

export const linesPacked: FilesFormat = {
  name: "SCIM files, one resource a line, packed",
  options: { mixed: "*.ndjson.gz" },
  describes: [/^users and groups in 1\.ndjson\.gz, 2\.ndjson\.gz$/],
  write: ({ users, groups }) => ({
    "1.ndjson.gz": gzipSync(groups.map((group) => `${JSON.stringify(group)}\n`).join("")),
    "2.ndjson.gz": gzipSync(users.map((user) => `${JSON.stringify(user)}\r\n`).join("")),
  }),
};

export function scimFilesMedium(
  format: FilesFormat,
  faults: Medium<ScimFilesProvision>["faults"],
): Medium<ScimFilesProvision> {
  return {
    name: format.name,
    module,
    attributes,
    faults,
    versions: true,
    describes: format.describes,
    async provision(company) {
      const folder = await realpath(await mkdtemp(join(tmpdir(), "rollcall-scim-")));
      const write = async (content: Company): Promise<void> => {
        for (const [file, text] of Object.entries(format.write(directoryOf(content)))) {
          await writeFile(join(folder, file), text);
        }
      };
      await write(company);
      return {
        options: { files: format.options, minUsers: company.users.length },
        folder,
        secrets: [nickname],
        path: (file) => join(folder, file),
        rename: (number, login) => write(renamed(company, number, login)),
        held: async () => {
          const numbers = await readdir("/proc/self/fd");
          const targets = await Promise.all(numbers.map((one) => readlink(`/proc/self/fd/${one}`).catch(() => "")));
          return targets.filter((target) => target.startsWith(folder)).length;
        },
        dispose: () => rm(folder, { recursive: true }),
      };
    },
  };
}

import type { SyncResult } from "#wire/administration.ts";
import { call, login, post, startService } from "../../support/rollcall/service.ts";
import type { Answer, ServiceOptions, TestService } from "../../support/rollcall/service.ts";

/** A principal of the answer of `user/list`. */
export interface Listed {
  readonly name: string;
  readonly displayName: string;
  readonly description?: string;
  readonly mail?: string;
  readonly principalTypeEnum: string;
  readonly groupNames: readonly string[];
  readonly visibility: string;
  readonly created: number;
  readonly modified: number;
}

/** A service with the administrator logged in, and what the tests of `user/sync` do with it. */
export interface Administration {
  readonly service: TestService;
  readonly session: string;
  /** Posts a form to `user/sync`. */
  post(form: Readonly<Record<string, string>>, options?: { session?: string; query?: string }): Promise<Answer>;
  /** Posts a body of any kind to `user/sync`. */
  send(body: string | Buffer, contentType: string | undefined, query?: string): Promise<Answer>;
  /** The result of a list, which must be a valid one. */
  preview(principals: unknown, parameters?: Readonly<Record<string, string>>): Promise<SyncResult>;
  apply(principals: unknown, parameters?: Readonly<Record<string, string>>): Promise<SyncResult>;
  /** What is wrong with a list, which must be an invalid one: in preview and in apply alike, and nothing has changed. */
  problems(principals: unknown, parameters?: Readonly<Record<string, string>>): Promise<readonly string[]>;
  list(): Promise<Listed[]>;
  /** The principals by name; of a user and a group with one name, the user. */
  find(name: string): Promise<Listed>;
}

export async function startAdministration(options: ServiceOptions = {}): Promise<Administration> {
  const service = await startService(options);
  const session = await login(service.url);
  const path = `${service.url}/tspublic/v1/user/sync`;
  const submit: Administration["post"] = (form, { session: other = session, query = "" } = {}) =>
    post(path + query, form, { session: other });
  const text = (principals: unknown): string =>
    typeof principals === "string" ? principals : JSON.stringify(principals);

  async function result(form: Readonly<Record<string, string>>): Promise<SyncResult> {
    const answer = await submit(form);
    if (answer.status !== 200) throw new Error(`user/sync: ${answer.status} ${answer.text}`);
    return JSON.parse(answer.text) as SyncResult;
  }

  async function problemsOf(form: Readonly<Record<string, string>>): Promise<readonly string[]> {
    const answer = await submit(form);
    if (answer.status !== 400) throw new Error(`user/sync: ${answer.status} ${answer.text}`);
    return debugOf(answer);
  }

  const listText = async (): Promise<string> => (await call(`${service.url}/tspublic/v1/user/list`, { session })).text;
  const list = async (): Promise<Listed[]> => JSON.parse(await listText()) as Listed[];

  return {
    service,
    session,
    post: submit,
    send: (body, contentType, query = "") =>
      call(path + query, {
        method: "POST",
        session,
        body,
        headers: contentType === undefined ? {} : { "content-type": contentType },
      }),
    preview: (principals, parameters) => result({ ...parameters, principals: text(principals) }),
    apply: (principals, parameters) => result({ applyChanges: "true", ...parameters, principals: text(principals) }),
    problems: async (principals, parameters) => {
      const before = await listText();
      const previewed = await problemsOf({ ...parameters, principals: text(principals) });
      const applied = await problemsOf({ ...parameters, applyChanges: "true", principals: text(principals) });
      if (JSON.stringify(previewed) !== JSON.stringify(applied)) {
        throw new Error(`preview says ${JSON.stringify(previewed)}, apply says ${JSON.stringify(applied)}`);
      }
      if ((await listText()) !== before) throw new Error("something has changed");
      return applied;
    },
    list,
    find: async (name) => {
      const found = (await list()).find((principal) => principal.name === name);
      if (found === undefined) throw new Error(`there is no ${name}`);
      return found;
    },
  };
}

/** The messages of an error answer of family B (B.1). */
export function debugOf({ text }: Answer): readonly string[] {
  return JSON.parse((JSON.parse(text) as { debug: string }).debug) as string[];
}

/** The answer when nothing changes, with what does instead. */
export function result(changes: Partial<SyncResult> = {}): SyncResult {
  return {
    usersAdded: [],
    usersDeleted: [],
    usersUpdated: [],
    groupsAdded: [],
    groupsDeleted: [],
    groupsUpdated: [],
    ...changes,
  };
}

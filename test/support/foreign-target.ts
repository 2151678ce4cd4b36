import type { Behaviour, ScriptedServer } from "./scripted-server.ts";
import { answer, startScripted } from "./scripted-server.ts";

/** A principal as it stands in a list: its own text, and what of it counts. */
interface Listed {
  readonly text: string;
  readonly type: string;
  readonly name: string;
  readonly facts: string;
  readonly groups: readonly string[];
}

/** A service of the interface that has more types and more fields, and keeps the objects that it is sent as they are. */
export interface ForeignTarget extends Pick<ScriptedServer, "url" | "close"> {
  /** The text of every object, in the order of `user/list`. */
  texts(): readonly string[];
  /** The text of one object. */
  text(name: string): string | undefined;
  /** Somebody else replaces the whole directory. */
  replace(texts: readonly string[]): void;
}

/**
 * Starts one with these objects, each as JSON text.
 * @param options.forgets a type of which it keeps nothing that it is sent, without saying so
 */
export async function startForeignTarget(
  texts: readonly string[],
  { forgets }: { readonly forgets?: string } = {},
): Promise<ForeignTarget> {
  let directory = texts.map(listed);
  const sync: Behaviour = async (response, request) => {
    const form = new URLSearchParams(server.to("user/sync").at(-1)?.body.toString() ?? "");
    const sent = elementsOf(form.get("principals") ?? "").map(listed);
    const groups = new Set(sent.filter(({ type }) => type.endsWith("GROUP")).map(({ name }) => name));
    const lost = sent.find((each) => each.groups.some((group) => !groups.has(group)));
    if (lost !== undefined)
      return answer(400, JSON.stringify({ debug: `${lost.name}: no such group` }))(response, request);
    const found = Object.fromEntries(
      ["users", "groups"].flatMap((kind) =>
        ["Added", "Deleted", "Updated"].map((done) => [kind + done, [] as string[]]),
      ),
    );
    const note = ({ type, name }: Listed, done: string): unknown =>
      found[`${type.endsWith("GROUP") ? "groups" : "users"}${done}`]?.push(name);
    const keyOf = ({ type, name }: Listed): string => `${type} ${name}`;
    const before = new Map(directory.map((each) => [keyOf(each), each]));
    for (const each of sent) {
      const was = before.get(keyOf(each));
      if (was === undefined) note(each, "Added");
      else if (was.facts !== each.facts) note(each, "Updated");
      before.delete(keyOf(each));
    }
    const rest = form.get("remoteDeleted") === "false" ? [...before.values()] : [];
    if (rest.length === 0) for (const each of before.values()) note(each, "Deleted");
    if (form.get("applyChanges") === "true") directory = [...sent, ...rest].filter(({ type }) => type !== forgets);
    await answer(200, JSON.stringify(found))(response, request);
  };
  const server: ScriptedServer = await startScripted({
    "user/list": (response, request) =>
      answer(200, `[${directory.map(({ text }) => text).join(" ,\n ")}]`)(response, request),
    "user/sync": sync,
  });
  return {
    url: server.url,
    close: server.close,
    texts: () => directory.map(({ text }) => text),
    text: (name) => directory.find((each) => each.name === name)?.text,
    replace: (replacing) => {
      directory = replacing.map(listed);
    },
  };
}

function listed(text: string): Listed {
  const { name, displayName, description = "", mail = "", principalTypeEnum, groupNames = [] } = JSON.parse(text);
  const groups = (groupNames as string[]).toSorted();
  return {
    text,
    type: principalTypeEnum,
    name,
    groups,
    facts: JSON.stringify([displayName, description, mail, groups]),
  };
}

/** The texts of the elements of a JSON array of objects. */
function elementsOf(json: string): string[] {
  const elements: string[] = [];
  let [depth, from] = [0, 0];
  for (const { 0: token, index } of json.matchAll(/"(?:[^"\\]|\\.)*"|[{}]/gs)) {
    if (token === "{" && depth++ === 0) from = index;
    if (token === "}" && --depth === 0) elements.push(json.slice(from, index + 1));
  }
  return elements;
}

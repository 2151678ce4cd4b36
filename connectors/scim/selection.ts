import type { ReadContext } from "#connector.ts";
import type { Kind } from "#principals/principal.ts";
import type { Making } from "./entry.ts";
import type { Options } from "./options.ts";

/** Attributes that take much room, of which it is certain that no rule's name can mean anything else. */
const bulky = ["photos", "x509Certificates", "ims", "addresses", "entitlements", "roles", "phoneNumbers"];

/** What entries are made of. */
export function makingOf({ memberships }: Options, { attributes }: ReadContext): Making {
  return {
    memberships,
    wanted: {
      user: attributes === undefined ? undefined : new Set(attributes.users),
      group: attributes === undefined ? undefined : new Set(attributes.groups),
    },
  };
}

/** The parameters that spare the server from sending what nobody asks for. */
export function selectionOf(
  kind: Kind,
  options: Options,
  { wanted, memberships }: Making,
): Readonly<Record<string, string>> {
  const { attributes, groups } = options;
  const apart = groups !== false && groups.members === "each";
  if (attributes === "all") return kind === "group" && apart ? { excludedAttributes: "members" } : {};
  const isMember = kind === "user" ? groups !== false && memberships !== "members" : memberships !== "groups" && !apart;
  const link = kind === "user" ? "groups" : "members";
  if (attributes !== "auto") {
    const asked = kind === "user" ? attributes : attributes.filter((name) => !name.includes(":User:"));
    return { attributes: ["id", "meta", ...asked, ...(isMember ? [link] : [])].join(",") };
  }
  const names = wanted[kind];
  const unused =
    names === undefined ? [] : bulky.filter((name) => ![...names].some((asked) => asked.split(".")[0] === name));
  const excluded = [...(kind === "user" ? unused : []), ...(isMember ? [] : [link])];
  return excluded.length === 0 ? {} : { excludedAttributes: excluded.join(",") };
}

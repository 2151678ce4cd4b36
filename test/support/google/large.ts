import type { GoogleDirectory, Listed } from "./directory.ts";

/** A company of any size, made as it is asked for: everybody is in two groups. `users` must be a multiple of `groups`. */
export function largeGoogle(users: number, groups: number): GoogleDirectory {
  const digits = (index: number): string => String(index).padStart(9, "0");
  const lazy = <Item>(length: number, make: (index: number) => Item): Listed<Item> => ({
    length,
    at: (index) => (index >= 0 && index < length ? make(index) : undefined),
    byId: (id) => (/^(?:1|0g)\d+$/.test(id) ? make(Number(id.replace(/^(?:1|0g)/, ""))) : undefined),
  });
  const email = (index: number): string => `user${digits(index)}@example.com`;
  return {
    users: lazy(users, (index) => ({
      id: `1${digits(index)}`,
      primaryEmail: email(index),
      name: { givenName: "Jörg", familyName: `Müller ${index}`, fullName: `Jörg Müller ${index}` },
      suspended: index % 100 === 99,
      archived: false,
      orgUnitPath: `/Unit ${index % 20}`,
      organizations: [{ primary: true, department: `Department ${index % 50}`, title: "Engineer" }],
    })),
    groups: lazy(groups, (index) => ({
      id: `0g${digits(index)}`,
      email: `group${digits(index)}@example.com`,
      name: `Group ${index}`,
      description: `The group number ${index}`,
    })),
    members: ({ id }) => {
      const own = Number(id.slice(2));
      const places = [own, (own + groups - 1) % groups].sort((a, b) => a - b);
      return lazy((2 * users) / groups, (index) => {
        const user = Math.floor(index / 2) * groups + (places[index % 2] ?? 0);
        return { id: `1${digits(user)}`, email: email(user), type: "USER" };
      });
    },
  };
}

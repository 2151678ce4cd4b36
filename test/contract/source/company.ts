/** What a medium holds: the company that every connector must deliver alike. */
export interface Company {
  readonly users: readonly CompanyUser[];
  readonly groups: readonly CompanyGroup[];
}

export interface CompanyUser {
  /** Stays when the user is renamed. */
  readonly number: string;
  readonly login: string;
  readonly displayName: string;
  readonly mail?: string;
  /** The names of the groups the user is directly in. */
  readonly groups: readonly string[];
}

export interface CompanyGroup {
  /** Stays when the group is renamed. A group may have the number of a user. */
  readonly number: string;
  readonly name: string;
  readonly description?: string;
  /** The names of the groups this one is directly in. */
  readonly groups: readonly string[];
}

/** A small company with what tends to go wrong. */
export const company: Company = {
  users: [
    {
      number: "1",
      login: "ada",
      displayName: "Ada Lovelace",
      mail: "ada@example.com",
      groups: ["Engineering", "Ålesund"],
    },
    {
      number: "2",
      login: "grace",
      displayName: 'Hopper, Grace "Amazing"',
      mail: "grace@example.com",
      groups: ["Engineering"],
    },
    { number: "3", login: "jörg", displayName: "Jörg Müßig", mail: "joerg@example.com", groups: ["Sales, North"] },
    { number: "4", login: "zoë", displayName: "Zoe\u{308} (decomposed)", groups: ["Ålesund"] },
    { number: "5", login: "two-lines", displayName: "First line\nSecond line", groups: ["Engineering"] },
    {
      number: "6",
      login: "李雷",
      displayName: "李雷 🦉",
      mail: "lilei@example.com",
      groups: ["Sales, North", "Engineering"],
    },
    { number: "7", login: "in-no-group", displayName: "Nobody's Friend; really", groups: [] },
    { number: "8", login: "no-mail", displayName: "Null", groups: ["Everybody"] },
    { number: "10", login: "cross", displayName: "=1+1", mail: "cross@example.com", groups: ["Cross"] },
  ],
  groups: [
    { number: "1", name: "Everybody", description: "The whole company", groups: [] },
    { number: "2", name: "Engineering", description: 'They say "it works"', groups: ["Everybody"] },
    { number: "3", name: "Sales, North", groups: ["Everybody"] },
    { number: "4", name: "Ålesund", description: "The office in Ålesund", groups: ["Engineering", "Everybody"] },
    { number: "20", name: "Empty", description: "Nobody is in it", groups: [] },
    { number: "21", name: "Cross", groups: ["Round"] },
    { number: "22", name: "Round", description: "In a circle with Cross", groups: ["Cross"] },
  ],
};

/** The company where groups hold users alone. */
export function flat({ users, groups }: Company): Company {
  return { users, groups: groups.map((group) => ({ ...group, groups: [] })) };
}

/** A company of any size, in which everybody is in two groups. */
export function largeCompany(users: number): Company {
  const groups = Math.max(2, Math.ceil(users / 100));
  return {
    users: Array.from({ length: users }, (_, index) => ({
      number: `${index + 1}`,
      login: `user${index + 1}`,
      displayName: `Jörg ${index + 1}, the "${index + 1}th"`,
      mail: `user${index + 1}@example.com`,
      groups: [`group${index % groups}`, `group${(index + 1) % groups}`],
    })),
    groups: Array.from({ length: groups }, (_, index) => ({ number: `g${index}`, name: `group${index}`, groups: [] })),
  };
}

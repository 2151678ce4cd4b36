/** What the test itself makes of a company: the people and groups that its directory has, by numbers that never change. */
export interface Person {
  uid: string;
  name: string;
  mail?: string | undefined;
  title?: string | undefined;
  /** The organizational unit that the entry is in. */
  site: (typeof sites)[number];
  department: (typeof departments)[number];
  type: "employee" | "contractor";
}

export interface Team {
  name: string;
  description?: string | undefined;
  /** The numbers of those who are in it. */
  people: Set<number>;
  teams: Set<number>;
}

export interface Company {
  readonly people: Map<number, Person>;
  readonly teams: Map<number, Team>;
}

export const sites = ["berlin", "lyon", "oslo"] as const;
export const departments = ["Engineering", "Sales", "Support", "Finance", "People, Culture & Law"] as const;

const givenNames = "Ada Björn Chloé Dörte Eirik Fatou Grzegorz Håkon İnci Jürgen Kübra Łucja".split(" ");
const familyNames =
  "Abel Bauer Çelik D'Arcy Eide Faure Gómez Hansen Ivanova Jensen Kowalski Lefèvre Müller Nowak O'Neil".split(" ");

/** Numbers of teams: everybody, the departments from 10, four teams of each, and the projects. */
export const team = {
  everybody: 1,
  department: (index: number): number => 10 + index,
  of: (index: number, which: number): number => 20 + index * 4 + which,
  project: (index: number): number => 60 + index,
};

/** Some 300 people in 30 groups: teams within departments, departments within everybody, and projects across them. */
export function foundCompany(): Company {
  const people = new Map<number, Person>();
  const teams = new Map<number, Team>();
  const make = (number: number, name: string, description?: string): Team => {
    const made = { name, description, people: new Set<number>(), teams: new Set<number>() };
    teams.set(number, made);
    return made;
  };
  const everybody = make(team.everybody, "Everybody", "All of us");
  for (const [index, name] of departments.entries()) {
    const department = make(team.department(index), name, `The department ${name}`);
    everybody.teams.add(team.department(index));
    for (let which = 0; which < 4; which++) {
      make(team.of(index, which), `${name} ${which + 1}`);
      department.teams.add(team.of(index, which));
    }
  }
  const projects = ["Aurora", "Borealis", "Ça ira", "Dünung"].map((name, index) =>
    make(team.project(index), name, `Project ${index + 1}`),
  );
  for (let number = 1; number <= 300; number++) {
    const index = number % departments.length;
    people.set(number, {
      ...named(number),
      title: number % 4 === 0 ? undefined : `Grade ${number % 7}`,
      // A third in Lyon: more than may be missing.
      site: number % 3 === 0 ? "lyon" : number % 2 === 0 ? "berlin" : "oslo",
      department: departments[index] ?? "Sales",
      type: number % 20 === 0 ? "contractor" : "employee",
    });
    teams.get(team.of(index, Math.floor(number / 5) % 4))?.people.add(number);
    if (number % 3 === 0) projects[number % 4]?.people.add(number);
    if (number % 10 === 0) teams.get(team.department(index))?.people.add(number);
  }
  return { people, teams };
}

/** Who somebody with this number is. */
function named(number: number): Pick<Person, "uid" | "name" | "mail"> {
  const given = givenNames[number % givenNames.length] ?? "";
  const family = familyNames[number % familyNames.length] ?? "";
  return {
    // Upper case in the directory, lower case by the rules.
    uid: `${number % 9 === 0 ? "U" : "u"}${1000 + number}`,
    name: `${given} ${family}`,
    mail: number % 11 === 0 ? undefined : `u${1000 + number}@example.com`,
  };
}

/** Somebody begins to work: in these teams. */
export function hire(company: Company, number: number, person: Partial<Person>, ...teams: readonly number[]): void {
  company.people.set(number, {
    ...named(number),
    site: "berlin",
    department: "Sales",
    type: "employee",
    ...person,
  });
  for (const each of teams) company.teams.get(each)?.people.add(number);
}

/** Somebody is taken out of the directory, and of every group. */
export function remove(company: Company, ...numbers: readonly number[]): void {
  for (const number of numbers) {
    company.people.delete(number);
    for (const { people } of company.teams.values()) people.delete(number);
  }
}

/** A group is taken out of the directory, and of every other one. */
export function dissolve(company: Company, number: number): void {
  company.teams.delete(number);
  for (const { teams } of company.teams.values()) teams.delete(number);
}

export function personOf({ people }: Company, number: number): Person {
  const person = people.get(number);
  if (person === undefined) throw new Error(`nobody has the number ${number}`);
  return person;
}

export function teamOf({ teams }: Company, number: number): Team {
  const found = teams.get(number);
  if (found === undefined) throw new Error(`no team has the number ${number}`);
  return found;
}

/** Puts everything back that was in the company, as it was then. */
export function restore(company: Company, before: Company): void {
  const copy = copyOf(before);
  for (const [number, person] of copy.people) company.people.set(number, person);
  for (const [number, team] of copy.teams) company.teams.set(number, team);
}

export function copyOf(company: Company): Company {
  return structuredClone(company);
}

/** Which groups a group is in, directly or through others. */
export interface Nesting {
  /** @returns keys, without the group's own; none for what is no group */
  above(group: string): readonly string[];
  isGroup(key: string): boolean;
}

/** Groups and which of them are in which; nothing about users. */
export interface NestingBuilder {
  /** Names a group by its key; all of them come before the first `add`. */
  group(key: string): void;
  /** That a group is directly in another; ignored when either is no group. */
  add(member: string, group: string): void;
  /** @param warn is told about groups that contain themselves, directly or through others */
  build(warn: (message: string) => void): Nesting;
}

/** How many circles are named. */
const examples = 5;

export function nestingBuilder(): NestingBuilder {
  const numbers = new Map<string, number>();
  const keys: string[] = [];
  const parents: number[][] = [];
  const nameOf = (number: number): string => keys[number] ?? "";
  return {
    group: (key) => {
      if (numbers.has(key)) return;
      numbers.set(key, keys.length);
      keys.push(key);
      parents.push([]);
    },
    add: (member, group) => {
      const [below, above] = [numbers.get(member), numbers.get(group)];
      if (below !== undefined && above !== undefined) parents[below]?.push(above);
    },
    build: (warn) => {
      warnOfCircles(inCircles(parents).map(nameOf), warn);
      return {
        isGroup: (key) => numbers.has(key),
        above: (group) => {
          const number = numbers.get(group);
          return number === undefined ? [] : above(parents, number).map(nameOf);
        },
      };
    },
  };
}

function warnOfCircles(circles: readonly string[], warn: (message: string) => void): void {
  for (const group of circles.slice(0, examples)) warn(`the group ${group} is in itself, directly or through others`);
  if (circles.length > examples) warn(`${circles.length - examples} more groups are in themselves`);
}

function above(parents: readonly (readonly number[])[], start: number): number[] {
  const found = new Set<number>();
  const open = [...(parents[start] ?? [])];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    if (found.has(at)) continue;
    found.add(at);
    open.push(...(parents[at] ?? []));
  }
  found.delete(start);
  return [...found];
}

/** One group of each circle, each group looked at once. */
function inCircles(parents: readonly (readonly number[])[]): number[] {
  const found = new Set<number>();
  const state = new Uint8Array(parents.length);
  const [fresh, onPath, done] = [0, 1, 2];
  for (const start of parents.keys()) {
    if (state[start] !== fresh) continue;
    state[start] = onPath;
    const path = [{ at: start, next: 0 }];
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      const parent = parents[top.at]?.[top.next++];
      if (parent === undefined) {
        state[top.at] = done;
        path.pop();
      } else if (state[parent] === onPath) found.add(parent);
      else if (state[parent] === fresh) {
        state[parent] = onPath;
        path.push({ at: parent, next: 0 });
      }
    }
  }
  return [...found];
}

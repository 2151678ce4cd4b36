import { visible } from "#text.ts";

/** How many values of an attribute are shown, and how much of each, in characters; how many different ones are counted. */
const shown = { values: 3, length: 24, counted: 12 } as const;

/** A value of an attribute as a rule has it. */
type Value = string | number | boolean;

/** The first different values of attributes, for a person who has to choose one of them. */
export class Examples {
  readonly #values = new Map<string, string[]>();
  readonly #counted = new Map<string, Map<Value, number>>();

  add(attribute: string, value: string | number | boolean | null | undefined): void {
    const found = this.#values.get(attribute) ?? [];
    this.#values.set(attribute, found);
    const text = String(value ?? "").trim();
    if (text === "") return;
    if (found.length < shown.values && !found.includes(text)) found.push(text);
    const counted = this.#counted.get(attribute) ?? new Map<Value, number>();
    this.#counted.set(attribute, counted);
    const own = typeof value === "string" ? text : (value ?? text);
    if (counted.has(own) || counted.size <= shown.counted) counted.set(own, (counted.get(own) ?? 0) + 1);
  }

  /** All different values of an attribute, and how many records have each; undefined: there are more than a dozen. */
  fewOf(attribute: string): ReadonlyMap<Value, number> | undefined {
    const counted = this.#counted.get(attribute);
    return counted === undefined || counted.size > shown.counted ? undefined : counted;
  }

  names(): readonly string[] {
    return [...this.#values.keys()];
  }

  of(attribute: string): readonly string[] {
    return this.#values.get(attribute) ?? [];
  }

  /** Choices for a question: `login   ada, grace, linus`. */
  choices(attributes: readonly string[]): { readonly name: string; readonly value: string }[] {
    const width = Math.min(32, Math.max(0, ...attributes.map((name) => Array.from(visible(name)).length)));
    return attributes.map((value) => {
      const examples = this.of(value).map((text) => shortened(visible(text)));
      return { name: `${visible(value).padEnd(width)}   ${examples.join(", ")}`.trimEnd(), value };
    });
  }
}

function shortened(text: string): string {
  const characters = Array.from(text);
  return characters.length <= shown.length ? text : `${characters.slice(0, shown.length - 1).join("")}…`;
}

/** A browser without pages: cookies by host, redirects by hand. */
export class Visit {
  readonly #cookies = new Map<string, Map<string, string>>();

  /** Asks without following. */
  async ask(url: string, form?: Record<string, string>, headers: Record<string, string> = {}): Promise<Response> {
    const { host, origin } = new URL(url);
    const jar = this.#cookies.get(host) ?? new Map<string, string>();
    this.#cookies.set(host, jar);
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
    const answer = await fetch(url, {
      redirect: "manual",
      headers: { ...(cookie !== "" && { cookie }), ...(form !== undefined && { origin }), ...headers },
      ...(form !== undefined && { method: "POST", body: new URLSearchParams(form) }),
    });
    for (const line of answer.headers.getSetCookie()) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === "" || /expires=Thu, 01 Jan 1970/i.test(line)) jar.delete(name);
      else jar.set(name, value);
    }
    return answer;
  }

  /** The cookies of a site, by name. */
  cookies(url: string): ReadonlyMap<string, string> {
    return this.#cookies.get(new URL(url).host) ?? new Map();
  }

  /** Follows redirects until there is a page. @param until stops before it asks for such an address */
  async follow(
    url: string,
    until = (_url: string): boolean => false,
  ): Promise<{ url: string; answer?: Response; text: string }> {
    let at = url;
    for (let count = 0; count < 20; count++) {
      if (until(at)) return { url: at, text: "" };
      const answer = await this.ask(at);
      const next = answer.headers.get("location");
      if (next === null) return { url: at, answer, text: await answer.text() };
      at = new URL(next, at).href;
    }
    throw new Error(`too many redirects, the last to ${at}`);
  }

  /** Sends the only form of a page, with its hidden fields and these. */
  submit({ url, text }: { url: string; text: string }, fields: Record<string, string>): Promise<Response> {
    const action = /<form[^>]* action="([^"]+)"/.exec(text)?.[1] ?? url;
    const hidden = [...text.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)].map(
      ([, name = "", value = ""]) => [name, value] as const,
    );
    return this.ask(new URL(action.replaceAll("&amp;", "&"), url).href, { ...Object.fromEntries(hidden), ...fields });
  }
}

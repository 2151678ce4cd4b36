import { describe, expect, test, vi } from "vitest";
import { Flights } from "#service/pinboards/pinboards.ts";

/** Work that ends when the test says so. */
function work() {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const signals: AbortSignal[] = [];
  const begin = vi.fn<(signal: AbortSignal) => Promise<string>>((signal) => {
    signals.push(signal);
    return promise;
  });
  return { begin, resolve, reject, stopped: () => signals.map(({ aborted }) => aborted) };
}

const dropped = vi.fn<(result: string) => void>();
const staying = new AbortController().signal;

describe("equal requests that wait for their turn share one query", () => {
  test("a call before it ends gets the same result; a later one begins anew", async () => {
    const flights = new Flights<string>(dropped);
    const { begin, resolve } = work();
    const both = Promise.all([flights.join("a", staying, begin), flights.join("a", staying, begin)]);
    resolve("result");
    expect(await both).toMatchObject([{ result: "result" }, { result: "result" }]);
    expect(begin).toHaveBeenCalledTimes(1);
    expect(await flights.join("a", staying, async () => "another")).toMatchObject({ result: "another" });
  });

  test("a call after it has begun begins anew: something may have changed since", async () => {
    const flights = new Flights<string>(dropped);
    const begun = Promise.withResolvers<() => void>();
    const end = Promise.withResolvers<string>();
    const early = [1, 2].map(() =>
      flights.join("a", staying, (_, begins) => {
        begun.resolve(begins);
        return end.promise;
      }),
    );
    (await begun.promise)();
    const late = flights.join("a", staying, async () => "after the change");
    end.resolve("before the change");
    expect(await late).toMatchObject({ result: "after the change" });
    expect(await Promise.all(early)).toMatchObject([{ result: "before the change" }, { result: "before the change" }]);
  });

  test("the result is dropped once, when all who have it have left", async () => {
    const flights = new Flights<string>(dropped);
    const { begin, resolve } = work();
    const both = Promise.all([flights.join("a", staying, begin), flights.join("a", staying, begin)]);
    resolve("shared result");
    const [first, second] = await both;
    first.leave();
    await Promise.resolve();
    expect(dropped).not.toHaveBeenCalledWith("shared result");
    second.leave();
    await vi.waitFor(() => {
      expect(dropped).toHaveBeenCalledExactlyOnceWith("shared result");
    });
  });

  test("another key is other work", async () => {
    const flights = new Flights<string>(dropped);
    expect(
      await Promise.all([flights.join("a", staying, async () => "1"), flights.join("b", staying, async () => "2")]),
    ).toMatchObject([{ result: "1" }, { result: "2" }]);
  });

  test("who leaves leaves alone", async () => {
    const flights = new Flights<string>(dropped);
    const { begin, resolve, stopped } = work();
    const leaving = new AbortController();
    const first = flights.join("a", leaving.signal, begin);
    const second = flights.join("a", staying, begin);
    leaving.abort(new Error("gone"));
    await expect(first).rejects.toThrow("gone");
    expect(stopped()).toEqual([false]);
    resolve("result");
    expect(await second).toMatchObject({ result: "result" });
  });

  test("when all have left, the work is stopped, and whoever comes then begins anew", async () => {
    const flights = new Flights<string>(dropped);
    const { begin, reject, stopped } = work();
    const leaving = [new AbortController(), new AbortController()];
    const all = leaving.map(({ signal }) => flights.join("a", signal, begin).catch((error: unknown) => error));
    for (const each of leaving) each.abort(new Error("gone"));
    expect(await Promise.all(all)).toMatchObject([{ message: "gone" }, { message: "gone" }]);
    expect(stopped()).toEqual([true]);
    expect(await flights.join("a", staying, async () => "anew")).toMatchObject({ result: "anew" });
    reject(new Error("interrupted"));
  });

  test("an error is everybody's, and the next begins anew", async () => {
    const flights = new Flights<string>(dropped);
    const { begin, reject } = work();
    const both = Promise.allSettled([flights.join("a", staying, begin), flights.join("a", staying, begin)]);
    reject(new Error("wrong"));
    expect(await both).toMatchObject([{ reason: { message: "wrong" } }, { reason: { message: "wrong" } }]);
    expect(await flights.join("a", staying, async () => "right")).toMatchObject({ result: "right" });
  });

  test("who has left before begins nothing", async () => {
    const { begin } = work();
    await expect(new Flights<string>(dropped).join("a", AbortSignal.abort(new Error("gone")), begin)).rejects.toThrow(
      "gone",
    );
    expect(begin).not.toHaveBeenCalled();
  });
});

"""What a network or a machine may do to a page, for Page.meddle()."""

# Requests for a path with $1 in it, by the method $2 (None: any), wait in window.held until letGo() lets the first of them go on.
HOLD = """{
  const real = window.fetch;
  window.held = [];
  window.letGo = () => window.held.shift()();
  window.fetch = (path, options) => {
    if (!path.includes($1) || ($2 !== null && options.method !== $2)) return real(path, options);
    return new Promise((done, fail) => {
      options.signal?.addEventListener('abort', () => fail(options.signal.reason));
      window.held.push(() => real(path, options).then(done, fail));
    });
  };
}"""
# The first request for a path with $1 in it waits for letGo(), and is then answered with 503 without having been anywhere, to be asked again in $2 s.
BUSY = """{
  const real = window.fetch;
  window.held = null;
  window.letGo = () => window.held();
  window.fetch = (path, options) => {
    if (!path.includes($1) || window.held !== null) return real(path, options);
    return new Promise((done) => {
      window.held = () => done(new Response('{"code":"BUSY","status":503}', { status: 503, headers: { 'Retry-After': $2 } }));
    });
  };
}"""
# The answer to the first request for a path with $1 in it comes when letGo() is called, which is there once the server has answered.
LATE = """{
  const real = window.fetch;
  let first = true;
  window.fetch = async (path, options) => {
    const late = first && path.includes($1);
    if (late) first = false;
    const answer = await real(path, options);
    if (late) await new Promise((done) => { window.letGo = done; });
    return answer;
  };
}"""
# The first answer about the path $1 that is news to whoever had asked before comes when letGo() is called, which is there once the server has
# answered. window.looks counts requests for that path which say what they have.
STALE = """{
  const real = window.fetch;
  let first = true;
  window.looks = 0;
  window.fetch = async (path, options) => {
    const look = path === $1 && options.headers['If-None-Match'] !== undefined;
    if (look) window.looks += 1;
    const answer = await real(path, options);
    if (first && look && answer.status === 200) {
      first = false;
      await new Promise((done) => { window.letGo = done; });
    }
    return answer;
  };
}"""
# What is sent by POST to a path with $1 in it is lost while window.lose is "request"; while it is "answer" the server hears it, and nobody the
# answer. From then on nobody hears about the path $2, until window.deaf is false.
LOST = """{
  const real = window.fetch;
  window.lose = null;
  window.deaf = false;
  window.fetch = async (path, options) => {
    const lost = window.lose !== null && options.method === 'POST' && path.includes($1);
    if (lost && window.lose === 'answer') await real(path, options);
    if (lost) window.deaf = true;
    if (lost || (window.deaf && path === $2)) throw new TypeError('lost');
    return real(path, options);
  };
}"""
# No timer of 700 ms and more comes to its end, as on a machine that sleeps.
ASLEEP = """{
  const real = window.setTimeout;
  window.setTimeout = (work, ms, ...more) => (ms >= 700 ? 0 : real(work, ms, ...more));
}"""
# window.locks says how often the screen is kept on.
SCREEN = """{
  window.locks = 0;
  const lock = () => {
    window.locks += 1;
    return { released: false, async release() { this.released = true; window.locks -= 1; } };
  };
  Object.defineProperty(navigator, 'wakeLock', { value: { request: async () => lock() } });
}"""
# Answers to requests for a path with $1 in it have $3 where they had $2. window.asked counts requests for a path with $4 in it.
OTHER = """{
  const real = window.fetch;
  window.asked = 0;
  window.fetch = async (path, options) => {
    if (path.includes($4)) window.asked += 1;
    const answer = await real(path, options);
    if (!path.includes($1) || answer.status !== 200) return answer;
    return new Response((await answer.text()).replace(new RegExp($2, 'g'), $3), { status: 200, headers: answer.headers });
  };
}"""
# window.asked counts requests, window.underWay those whose answer has not been read yet; of streams, those that have not begun.
COUNT = """{
  const real = window.fetch;
  window.asked = 0;
  window.underWay = 0;
  const during = (work) => {
    window.underWay += 1;
    return work.finally(() => { window.underWay -= 1; });
  };
  window.fetch = async (path, options) => {
    window.asked += 1;
    const answer = await during(real(path, options));
    answer.text = () => during(Response.prototype.text.call(answer));
    return answer;
  };
}"""
# The clock of the machine is $1 ms ahead.
CLOCK = "{ const now = Date.now; Date.now = () => now() + $1; }"

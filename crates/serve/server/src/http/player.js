// Plays a film by its own playlists (HTTP Live Streaming, RFC 8216) through Media Source Extensions. A film that is being recorded is
// followed by its low-latency playlist (draft-pantos-hls-rfc8216bis): the server answers as soon as there is another part.
"use strict";

// Seconds that are loaded ahead of what is seen, and that are kept behind it.
const AHEAD = 30;
const BEHIND = 30;
// How many times in a row the server may have no playlist, before that is an error.
const FAILURES = 10;

const video = document.getElementById("film");
const state = document.getElementById("state");

// The text, or the server's sentence as an error.
async function load(url, kind) {
  const response = await fetch(url, { credentials: "same-origin" });
  if (!response.ok) throw new Error((await response.text()).trim() || "the server answers " + response.status);
  return response[kind]();
}

// The variants of a master playlist, the best one first: their URLs and codecs.
function variants(text, base) {
  const lines = text.split("\n");
  const all = lines.flatMap((line, at) => {
    const codecs = line.startsWith("#EXT-X-STREAM-INF:") && /CODECS="([^"]*)"/.exec(line);
    return codecs ? [{ url: new URL(lines[at + 1], base), type: `video/mp4; codecs="${codecs[1]}"` }] : [];
  });
  if (!all.length) throw new Error("the playlist names no codecs");
  return all;
}

// A film by its media playlist: segments, each with when it begins and ends and its parts if these are named, and the parts of the
// next segment. Segments that the playlist skips are those of the film before.
function parse(text, base, before) {
  const lines = text.split("\n");
  const film = { segments: [], open: [], isOver: false, hold: null, duration: 0 };
  const attribute = (line, name) => (new RegExp(name + '="?([^",]*)').exec(line) || [])[1];
  lines.forEach((line, number) => {
    const [tag] = line.split(":");
    const value = line.slice(tag.length + 1);
    if (tag === "#EXT-X-MAP") film.init = new URL(attribute(line, "URI"), base);
    if (tag === "#EXT-X-MEDIA-SEQUENCE") film.first = parseInt(value);
    if (tag === "#EXT-X-ENDLIST") film.isOver = true;
    if (tag === "#EXT-X-SERVER-CONTROL") film.hold = parseFloat(attribute(line, "PART-HOLD-BACK"));
    if (tag === "#EXT-X-START") film.hold = null;
    if (tag === "#EXT-X-SKIP") {
      film.segments = before.segments.slice(0, parseInt(attribute(line, "SKIPPED-SEGMENTS")));
      film.duration = film.segments.length ? film.segments[film.segments.length - 1].end : 0;
    }
    if (tag === "#EXT-X-PART") {
      const begin = film.open.length ? film.open[film.open.length - 1].end : film.duration;
      const end = begin + parseFloat(attribute(line, "DURATION"));
      film.open.push({ begin, end, url: new URL(attribute(line, "URI"), base).href });
    }
    if (tag === "#EXTINF") {
      const [begin, end] = [film.duration, film.duration + parseFloat(value)];
      film.segments.push({ begin, end, url: new URL(lines[number + 1], base).href, parts: film.open });
      [film.duration, film.open] = [end, []];
    }
  });
  film.open.forEach((part) => { film.duration = part.end; });
  // What is loaded piece by piece, and where decoding can begin.
  film.pieces = film.segments.flatMap((one) => (one.parts.length ? one.parts : [one])).concat(film.open);
  film.begins = film.segments.map((one) => one.begin).concat(film.open.slice(0, 1).map((one) => one.begin));
  if (!film.init || !film.pieces.length) throw new Error("the playlist names no segments");
  return film;
}

// The last place where decoding can begin, at a time or before.
function beginBefore(film, time) {
  return film.begins.filter((begin) => begin <= time).pop() || 0;
}

// Loads the playlist of a film that is being recorded again and again, until it has an end.
async function follow(film, url) {
  for (let failures = 0; !film.isOver;) {
    const next = new URL(url);
    next.searchParams.set("_HLS_msn", film.first + film.segments.length);
    next.searchParams.set("_HLS_part", film.open.length);
    next.searchParams.set("_HLS_skip", "YES");
    try {
      const text = await load(next, "text");
      Object.assign(film, parse(text, url, film));
      failures = 0;
    } catch (error) {
      if (++failures >= FAILURES) throw error;
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
    film.wake();
  }
  state.textContent = film.remark;
}

// Calls a method of a source buffer, and waits until it is done.
async function done(buffer, change) {
  const wait = new AbortController();
  try {
    await new Promise((resolve, reject) => {
      buffer.addEventListener("updateend", resolve, { signal: wait.signal });
      const fail = () => reject(new Error("the browser cannot decode the film"));
      buffer.addEventListener("error", fail, { signal: wait.signal });
      change();
    });
  } finally {
    wait.abort();
  }
}

// Until when it can be played from a position without a gap.
function loadedUntil(time) {
  const ranges = video.buffered;
  for (let number = 0; number < ranges.length; number++) {
    if (ranges.start(number) <= time + 0.2 && time < ranges.end(number)) return ranges.end(number);
  }
  return time;
}

async function append(buffer, bytes) {
  for (;;) {
    try {
      return await done(buffer, () => buffer.appendBuffer(bytes));
    } catch (error) {
      if (error.name !== "QuotaExceededError") throw error;
      const until = video.currentTime - 5;
      if (until > 0) await done(buffer, () => buffer.remove(0, until));
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }
}

// Tells the browser how long a film is. A film that is being recorded has no end yet, and can be sought in as far as it has come.
function tellDuration(source, film) {
  if (source.readyState !== "open") return;
  if (!film.isOver) {
    source.duration = Infinity;
    source.setLiveSeekableRange(0, film.duration);
  } else if (!(source.duration < Infinity)) {
    const ranges = video.buffered;
    source.duration = Math.max(film.duration, ranges.length ? ranges.end(ranges.length - 1) : 0);
  }
}

async function feed(source, film, buffer) {
  const appended = new Set();
  video.addEventListener("seeking", () => { appended.clear(); film.wake(); });
  for (;;) {
    if (video.error) throw new Error("the browser cannot decode the film");
    tellDuration(source, film);
    const time = video.currentTime;
    const until = loadedUntil(time);
    if (buffer.buffered.length && buffer.buffered.start(0) < time - 2 * BEHIND) {
      await done(buffer, () => buffer.remove(0, time - BEHIND));
      appended.clear();
    }
    // A piece whose samples begin a little late is not asked for again.
    const from = until > time ? until : beginBefore(film, time);
    const next = film.pieces.find((one) => one.end > from + 0.1 && !appended.has(one.url));
    if (next && until - time < AHEAD) {
      const bytes = await load(next.url, "arrayBuffer");
      // A seek meanwhile does no harm: this one is loaded, and the next look is at the new position.
      if (bytes.byteLength) await append(buffer, bytes);
      appended.add(next.url);
    } else {
      const isAll = film.isOver && !next && until >= film.duration - 0.5;
      if (isAll && source.readyState === "open") source.endOfStream();
      await new Promise((resolve) => { film.wake = resolve; setTimeout(resolve, 1000); });
    }
  }
}

async function play() {
  const master = new URL(video.dataset.master, location.href);
  const all = variants(await load(master, "text"), master);
  const chosen = all.find((one) => window.MediaSource && MediaSource.isTypeSupported(one.type));
  if (!chosen) {
    // Browsers of one maker play such playlists by themselves.
    if (video.canPlayType("application/vnd.apple.mpegurl")) { video.src = master; return; }
    throw new Error("this browser does not play " + all[0].type);
  }
  const remark = chosen === all[0] ? "" : "This browser does not play the film's sound.";
  const film = { wake: () => {}, remark, ...parse(await load(chosen.url, "text"), chosen.url) };
  const source = new MediaSource();
  video.src = URL.createObjectURL(source);
  await new Promise((resolve) => source.addEventListener("sourceopen", resolve, { once: true }));
  tellDuration(source, film);
  const buffer = source.addSourceBuffer(chosen.type);
  await append(buffer, await load(film.init, "arrayBuffer"));
  if (film.hold !== null) video.currentTime = beginBefore(film, film.duration - film.hold);
  state.textContent = film.isOver ? remark : "The film is being recorded.";
  await Promise.all([feed(source, film, buffer), follow(film, chosen.url)]);
}

if (video) play().catch((error) => { state.textContent = error.message + "."; });

// Plays a film by its own playlists (HTTP Live Streaming, RFC 8216) through Media Source Extensions.
"use strict";

// Seconds that are loaded ahead of what is seen, and that are kept behind it.
const AHEAD = 30;
const BEHIND = 30;

const video = document.getElementById("film");
const state = document.getElementById("state");

// The text, or the server's sentence as an error.
async function load(url, kind) {
  const response = await fetch(url, { credentials: "same-origin" });
  if (!response.ok) throw new Error((await response.text()).trim() || "the server answers " + response.status);
  return response[kind]();
}

// The first variant of a master playlist: its URL and codecs.
function variant(text, base) {
  const lines = text.split("\n");
  const at = lines.findIndex((line) => line.startsWith("#EXT-X-STREAM-INF:"));
  const codecs = /CODECS="([^"]*)"/.exec(lines[at] || "");
  if (!codecs) throw new Error("the playlist names no codecs");
  return { url: new URL(lines[at + 1], base), type: `video/mp4; codecs="${codecs[1]}"` };
}

// The segments of a media playlist: each with when it begins and ends.
function segments(text, base) {
  const lines = text.split("\n");
  const map = /URI="([^"]*)"/.exec(lines.find((line) => line.startsWith("#EXT-X-MAP:")) || "");
  const all = [];
  let begin = 0;
  lines.forEach((line, number) => {
    if (!line.startsWith("#EXTINF:")) return;
    const end = begin + parseFloat(line.slice("#EXTINF:".length));
    all.push({ begin, end, url: new URL(lines[number + 1], base) });
    begin = end;
  });
  if (!map || !all.length) throw new Error("the playlist names no segments");
  return { init: new URL(map[1], base), all, duration: begin };
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

async function feed(source, film, buffer) {
  const appended = new Set();
  let wake = () => {};
  video.addEventListener("seeking", () => { appended.clear(); wake(); });
  for (;;) {
    if (video.error) throw new Error("the browser cannot decode the film");
    const time = video.currentTime;
    const until = loadedUntil(time);
    if (buffer.buffered.length && buffer.buffered.start(0) < time - 2 * BEHIND) {
      await done(buffer, () => buffer.remove(0, time - BEHIND));
      appended.clear();
    }
    // A segment whose samples begin a little late is not asked for again.
    const next = film.all.find((one) => one.end > until + 0.1 && !appended.has(one));
    if (next && until - time < AHEAD) {
      const bytes = await load(next.url, "arrayBuffer");
      // A seek meanwhile does no harm: this one is loaded, and the next look is at the new position.
      await append(buffer, bytes);
      appended.add(next);
    } else {
      if (!next && until >= film.duration - 0.5 && source.readyState === "open") source.endOfStream();
      await new Promise((resolve) => { wake = resolve; setTimeout(resolve, 1000); });
    }
  }
}

async function play() {
  const master = new URL(video.dataset.master, location.href);
  const chosen = variant(await load(master, "text"), master);
  if (!window.MediaSource || !MediaSource.isTypeSupported(chosen.type)) {
    // Browsers of one maker play such playlists by themselves.
    if (video.canPlayType("application/vnd.apple.mpegurl")) { video.src = master; return; }
    throw new Error("this browser does not play " + chosen.type);
  }
  const film = segments(await load(chosen.url, "text"), chosen.url);
  const source = new MediaSource();
  video.src = URL.createObjectURL(source);
  await new Promise((resolve) => source.addEventListener("sourceopen", resolve, { once: true }));
  source.duration = film.duration;
  const buffer = source.addSourceBuffer(chosen.type);
  await append(buffer, await load(film.init, "arrayBuffer"));
  await feed(source, film, buffer);
}

if (video) play().catch((error) => { state.textContent = error.message + "."; });

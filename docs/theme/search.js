// SPDX-License-Identifier: Apache-2.0
// Search in the pages without a web server: `tremula_pages` of search_index.js has [address, title, section, text] of every
// section. A section is found if it has all words; words in titles count more, those of pages for people who change Tremula
// count less, those of the changelog least.
"use strict";
(() => {
  const input = document.getElementById("search"), list = document.getElementById("found");
  const root = input.dataset.root.replace(/\/?\.?$/, "");
  const factor = (address) => /^rooms\/CHANGELOG/.test(address) ? 0.125 : /^rooms\/(?!bindings\/python\/TEN)/.test(address) ? 0.3 : 1;
  const sections = tremula_pages.map((entry) => ({
    entry, factor: factor(entry[0]), head: (entry[1] + " " + entry[2]).toLowerCase(), text: entry[3].toLowerCase(),
  }));
  function weight(section, words) {
    let sum = 0;
    for (const word of words) {
      const count = section.text.split(word).length - 1;
      const in_head = section.head.includes(word);
      if (!count && !in_head) return 0;
      sum += Math.min(count, 5) + (in_head ? 20 : 0);
    }
    return sum * section.factor;
  }
  function show() {
    const words = input.value.toLowerCase().split(/\s+/).filter((word) => word.length > 1);
    list.replaceChildren();
    if (!words.length) return;
    const found = sections.map((section) => [weight(section, words), section.entry]).filter(([sum]) => sum > 0);
    found.sort((a, b) => b[0] - a[0]);
    for (const [, [address, title, head, text]] of found.slice(0, 12)) {
      const at = Math.max(0, text.toLowerCase().indexOf(words[0]) - 50);
      const item = document.createElement("li"), link = document.createElement("a"), extract = document.createElement("small");
      link.href = (root ? root + "/" : "") + address;
      link.textContent = head ? title + ": " + head : title;
      extract.textContent = (at ? "... " : "") + text.slice(at, at + 130) + " ...";
      link.append(extract);
      item.append(link);
      list.append(item);
    }
    if (!found.length) {
      const item = document.createElement("li"), none = document.createElement("a");
      none.textContent = "Nothing found";
      item.append(none);
      list.append(item);
    }
  }
  input.addEventListener("input", show);
  document.addEventListener("click", (event) => { if (!event.target.closest(".search")) list.replaceChildren(); });
  input.addEventListener("focus", show);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { input.value = ""; show(); }
    if (event.key === "Enter" && list.querySelector("a[href]")) list.querySelector("a[href]").click();
  });
})();

"use strict";
// One box that ticks all boxes of the page. Without JavaScript it stays hidden, and each is ticked by itself.
{
  const all = document.getElementById("select-all");
  const boxes = Array.from(document.querySelectorAll("#letters input[name=letter]"));
  if (all && boxes.length) {
    all.hidden = false;
    const follow = () => { all.checked = boxes.every((box) => box.checked); };
    all.addEventListener("change", () => { boxes.forEach((box) => { box.checked = all.checked; }); });
    boxes.forEach((box) => box.addEventListener("change", follow));
    window.addEventListener("pageshow", follow);
  }
}

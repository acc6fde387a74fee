import Foundation
import Testing

@testable import Soak

@Suite("Marks on the report's plots")
struct PlotTests {
  private struct Label: Equatable {
    let name: String
    let x: Double
    let y: Double
    let isLeft: Bool
  }

  private func html(_ marks: [(at: Double, name: String)], seconds: Double) -> String {
    Plot(title: "Deliveries", unit: .perSecond, seconds: seconds, series: [], marks: marks).html
  }

  /// The names that stand on a plot, from left to right.
  private func labels(_ html: String) -> [Label] {
    html.matches(
      of: /<text class="mark-name" x="([0-9.]+)" y="([0-9.]+)" text-anchor="(start|end)">([^<]*)<\/text>/
    ).map { Label(name: String($0.4), x: Double($0.1) ?? -1, y: Double($0.2) ?? -1, isLeft: $0.3 == "end") }
      .sorted { $0.x < $1.x }
  }

  @Test("a mark has its name beside the top of its line, in the plot's own units")
  func name() {
    // The axis is 644 wide from 62 on: the middle is at 384, and the name three pixels behind it.
    let html = html([(50, "server killed")], seconds: 100)
    #expect(labels(html) == [Label(name: "server killed", x: 387, y: 12, isLeft: false)])
    #expect(html.contains(#"x1="384.0" x2="384.0" y1="12.0""#))
    #expect(html.contains("<title>server killed</title>"))
  }

  @Test("at the right edge the name stands to the left of its line")
  func edge() {
    #expect(
      labels(html([(100, "server restarted")], seconds: 100))
        == [Label(name: "server restarted", x: 703, y: 12, isLeft: true)])
  }

  @Test(
    "names that would run into each other take two rows; a third has no room, and is there for the pointer")
  func rows() {
    let html = html([(50, "server killed"), (51, "flood of it"), (52, "server there")], seconds: 100)
    #expect(labels(html).map(\.name) == ["server killed", "flood of it"])
    #expect(labels(html).map(\.y) == [12, 24])
    #expect(html.contains("<title>server there</title>"))
  }

  @Test("a burst every minute leaves no restart without its name")
  func rareFirst() {
    var marks = (1...48).map { (at: Double($0) * 600, name: SoakSample.burst) }
    marks += [5_760, 11_520, 17_280, 23_040].enumerated().map {
      (at: Double($1), name: $0 % 2 == 0 ? SoakSample.restarted : SoakSample.killed)
    }
    let found = labels(html(marks, seconds: 28_806))
    #expect(found.count { $0.name == SoakSample.restarted } == 2)
    #expect(found.count { $0.name == SoakSample.killed } == 2)
    // Nothing overlaps: 6.4 pixels a letter, by row.
    for row in [12.0, 24] {
      let ends = found.filter { $0.y == row }.map { label -> (Double, Double) in
        let width = Double(label.name.count) * 6.4
        return label.isLeft ? (label.x - width, label.x) : (label.x, label.x + width)
      }
      for (left, right) in zip(ends, ends.dropFirst()) { #expect(left.1 <= right.0) }
    }
  }

  @Test("who hears the page is told what is marked, and how often")
  func spoken() {
    let html = html([(1, "flood"), (5, "burst"), (9, "burst")], seconds: 10)
    #expect(html.contains(#"aria-label="Deliveries; marked: flood, burst 2×""#))
    #expect(self.html([], seconds: 10).contains(#"aria-label="Deliveries">"#))
  }
}

import Testing

@testable import MatchScripts

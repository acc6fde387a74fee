import Testing

@testable import Rehearsal
